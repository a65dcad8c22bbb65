#include "autoscaler/command_template.h"

#include <fmt/format.h>

namespace tailrace::autoscaler {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";

Result<std::string> fill(std::string_view text,
                         const std::map<std::string, std::string, std::less<>>& values) {
  std::string filled;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    filled += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open + 1);
    const std::size_t end = text.find_first_not_of(kLetters);
    if (end == 0 || end == std::string_view::npos || text[end] != '}') {
      filled += '{';
      continue;
    }
    const std::string_view word = text.substr(0, end);
    const auto value = values.find(word);
    if (value == values.end()) {
      std::string known;
      for (const auto& [name, unused] : values) known += fmt::format(" {{{}}}", name);
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{{{}}} stands for nothing here; use{}", word, known));
    }
    filled += value->second;
    text.remove_prefix(end + 1);
  }
  return filled;
}

}  // namespace

Result<std::vector<std::string>> fill_command(
    const std::vector<std::string>& command,
    const std::map<std::string, std::string, std::less<>>& values) {
  std::vector<std::string> filled;
  filled.reserve(command.size());
  for (const auto& word : command) {
    auto text = fill(word, values);
    if (!text) return fail(text.error());
    filled.push_back(std::move(*text));
  }
  return filled;
}

}  // namespace tailrace::autoscaler
