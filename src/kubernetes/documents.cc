#include "kubernetes/documents.h"

#include <fmt/format.h>

#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes {
namespace {

using simdjson::dom::object;

constexpr std::size_t kFirstCapacity = 4096;
constexpr std::size_t kDepthMax = 128;
constexpr std::size_t kMessageBytesMax = 512;
constexpr std::size_t kVersionBytesMax = 256;

tl::unexpected<Error> damaged(std::string what) {
  return fail(ErrorCode::kDataLoss, std::move(what));
}

std::string shown(std::string_view text) {
  return core::printable(core::utf8_prefix(text, kMessageBytesMax));
}

/// Versions go into queries: what no server would send is refused before that.
Result<std::string> version_of(const object& holder, std::string_view what) {
  const auto metadata = member_object(holder, "metadata");
  const auto version = metadata ? member_text(*metadata, "resourceVersion") : std::nullopt;
  if (!version || version->empty() || version->size() > kVersionBytesMax) {
    return damaged(fmt::format("{} without a usable metadata.resourceVersion", what));
  }
  return std::string(*version);
}

}  // namespace

DocumentReader::DocumentReader() {
  // A failed allocation shows again in read().
  [[maybe_unused]] const auto failed = parser_.allocate(kFirstCapacity, kDepthMax);
}

Result<object> DocumentReader::read(std::string_view text) {
  if (text.empty()) return damaged("the document is empty");
  simdjson::dom::element root;
  const auto code = parser_.parse(text.data(), text.size()).get(root);
  if (code != simdjson::SUCCESS) {
    return damaged(fmt::format("the document is no JSON: {}", simdjson::error_message(code)));
  }
  object found;
  if (root.get(found) != simdjson::SUCCESS) return damaged("the document is no JSON object");
  return found;
}

std::optional<object> member_object(const object& in, std::string_view key) {
  object found;
  if (in[key].get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

std::optional<std::string_view> member_text(const object& in, std::string_view key) {
  std::string_view found;
  if (in[key].get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

std::optional<std::int64_t> member_int(const object& in, std::string_view key) {
  std::int64_t found = 0;
  if (in[key].get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

Result<ListPage> read_list_page(std::string_view text) {
  DocumentReader reader;
  const auto root = reader.read(text);
  if (!root) return fail(root.error());
  ListPage page;
  auto version = version_of(*root, "a list");
  if (!version) return fail(std::move(version).error());
  page.resource_version = std::move(*version);
  page.next = member_text(*member_object(*root, "metadata"), "continue").value_or("");
  simdjson::dom::element items;
  if ((*root)["items"].get(items) != simdjson::SUCCESS) return damaged("a list without `items`");
  if (items.is_null()) return page;  // Go's way to write an empty one
  simdjson::dom::array array;
  if (items.get(array) != simdjson::SUCCESS) return damaged("a list whose `items` are no array");
  page.items.reserve(array.size());
  for (const simdjson::dom::element item : array) {
    if (!item.is_object()) return damaged("a list with an item that is no object");
    page.items.push_back(simdjson::minify(item));
  }
  return page;
}

Result<void> read_watch_line(std::string_view text, WatchLine& line) {
  line = {};
  DocumentReader reader;
  const auto root = reader.read(text);
  if (!root) return fail(root.error());
  line.type = member_text(*root, "type").value_or("");
  const auto held = member_object(*root, "object");
  if (!held) return damaged("a watch event without `object`");
  if (line.type == "ERROR") {
    const auto status = member_int(*held, "code").value_or(0);
    line.error_status = status >= 100 && status <= 999 ? static_cast<int>(status) : 0;
    line.error_message = shown(member_text(*held, "message").value_or(""));
    return {};
  }
  const bool bookmark = line.type == "BOOKMARK";
  if (!bookmark && line.type != "ADDED" && line.type != "MODIFIED" && line.type != "DELETED") {
    return damaged(fmt::format("a watch event of the unknown type {}", core::quoted(line.type)));
  }
  auto version = version_of(*held, "a watch event");
  if (!version) return fail(std::move(version).error());
  line.resource_version = std::move(*version);
  if (!bookmark) line.object = simdjson::minify(*held);
  return {};
}

std::string status_message(std::string_view text) {
  DocumentReader reader;
  const auto root = reader.read(text);
  return root ? shown(member_text(*root, "message").value_or("")) : std::string();
}

}  // namespace tailrace::kubernetes
