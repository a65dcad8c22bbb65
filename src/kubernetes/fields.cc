#include "kubernetes/fields.h"

#include <fmt/format.h>

namespace tailrace::kubernetes::fields {
namespace {

constexpr std::size_t kDepthMax = 200;  ///< objects nest some 15 deep
constexpr std::size_t kBytesMax = 64U << 20;

}  // namespace

Parser::Parser() : parser_(kBytesMax) {
  // Allocation grows with the first documents; only the depth is settled here.
  [[maybe_unused]] const auto failed = parser_.allocate(4096, kDepthMax);
}

Result<Element> Parser::parse(std::string_view text) {
  Element root;
  const auto error = parser_.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return fail(ErrorCode::kDataLoss, fmt::format("no JSON: {}", simdjson::error_message(error)));
  }
  return root;
}

std::optional<Element> at(Element root, Path path) {
  for (const auto key : path) {
    simdjson::dom::object object;
    if (root.get(object) != simdjson::SUCCESS) return {};
    bool found = false;
    for (const auto field : object) {
      if (field.key != key) continue;
      root = field.value;
      found = true;
    }
    if (!found) return {};
  }
  if (root.is_null()) return {};
  return root;
}

std::optional<Array> list_at(Element root, Path path) {
  const auto element = at(root, path);
  Array list;
  if (!element || element->get(list) != simdjson::SUCCESS) return {};
  return list;
}

std::string text_at(Element root, Path path) {
  const auto element = at(root, path);
  std::string_view text;
  if (!element || element->get(text) != simdjson::SUCCESS) return "";
  return std::string(text);
}

std::optional<std::int64_t> whole_at(Element root, Path path) {
  const auto element = at(root, path);
  std::int64_t value = 0;
  if (!element || element->get(value) != simdjson::SUCCESS) return {};
  return value;
}

bool true_at(Element root, Path path) {
  const auto element = at(root, path);
  bool value = false;
  return element && element->get(value) == simdjson::SUCCESS && value;
}

std::map<std::string, std::string> texts_at(Element root, Path path) {
  const auto element = at(root, path);
  simdjson::dom::object object;
  if (!element || element->get(object) != simdjson::SUCCESS) return {};
  return texts_of(object);
}

std::map<std::string, std::string> texts_of(const simdjson::dom::object& object) {
  std::map<std::string, std::string> texts;
  for (const auto field : object) {
    std::string_view text;
    if (field.value.get(text) == simdjson::SUCCESS) texts[std::string(field.key)] = text;
  }
  return texts;
}

}  // namespace tailrace::kubernetes::fields
