#include "simulate/experiment_names.h"

#include <algorithm>
#include <array>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/simulate/request_csv.h"

namespace tailrace::simulate {

std::string_view name_fault(std::string_view name) {
  if (core::valid_utf8(name) != name) return "is not valid UTF-8";
  constexpr std::array<std::string_view, 6> kUnseen = {"\u200b", "\u200c", "\u200d",
                                                       "\u200e", "\u200f", "\ufeff"};
  if (core::printable(name) != name || std::any_of(kUnseen.begin(), kUnseen.end(), [&](auto c) {
        return name.find(c) != std::string_view::npos;
      })) {
    return "has a character that does not show or turns the text around; leave it out";
  }
  return "";
}

void leaves(const std::string& key, const core::YamlNode& node, std::set<std::string>& into) {
  if (node.kind != core::YamlNode::Kind::kMap) {
    into.insert(key);
    return;
  }
  for (const auto& [name, below] : node.members) leaves(key + "." + name, below, into);
}

bool is_column(std::string_view name) {
  const auto columns = core::split(RequestCsv::columns(), ',');
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

}  // namespace tailrace::simulate
