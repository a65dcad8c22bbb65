#include "tailrace/core/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tailrace::core {
namespace {

constexpr std::size_t kSecretBytesMax = 64 * 1024;

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Environment no_environment() {
  return [](const std::string&) { return std::nullopt; };
}

std::string environment_name(std::string_view path, std::string_view prefix) {
  std::string name(prefix);
  for (const char c : path) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  }
  return name;
}

void OverrideVisitor::field(Field field) {
  std::string name = environment_name(path_ + field.name, names_);
  variable(std::move(name), std::move(field));
}

void OverrideVisitor::section(std::string_view name, std::string_view,
                              const std::function<void()>& body) {
  const std::string outer = path_;
  path_ += fmt::format("{}.", name);
  body();
  path_ = outer;
}

void EnvironmentReader::variable(std::string name, Field field) {
  const auto value = environment_(name);
  if (!value) return;
  const auto assign = [&](std::string_view text) {
    if (auto set = field.assign(text); !set) {
      problems_.add_raw(fmt::format("environment variable {}: {} {}", name, shown(field, text),
                                    set.error().message));
    }
  };
  if (!field.is_list) return assign(*value);
  field.clear();
  for (const auto item : split(*value, ',')) assign(trim(item));
}

Result<void> read_settings(const SettingsText& given, const Environment& environment,
                           const std::function<void(SchemaVisitor&)>& visit,
                           const std::function<void(Problems&)>& check) {
  if (given.text.size() > given.bytes_max) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: longer than {} bytes", given.origin, given.bytes_max));
  }
  const auto tree = parse_yaml(given.text);
  if (!tree) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}", given.origin, tree.error().message));
  }
  Problems problems(given.origin);
  SettingsReader reader(problems);
  const YamlNode empty{YamlNode::Kind::kMap, 1, {}, {}, {}};
  reader.read(tree->kind == YamlNode::Kind::kNull ? empty : *tree, "", [&] { visit(reader); });
  EnvironmentReader overrides(environment, problems, given.prefix);
  visit(overrides);
  check(problems);
  if (!problems.none()) return fail(problems.error());
  return {};
}

bool can_be_token(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Result<std::string> read_secret(const std::string& variable, const std::string& file,
                                const Environment& environment) {
  std::string value;
  if (!variable.empty()) {
    const auto found = environment(variable);
    if (!found) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("environment variable {} is not set", quoted(variable)));
    }
    value = *found;
  } else if (!file.empty()) {
    auto bytes = read_regular_file(file, kSecretBytesMax);
    if (!bytes) return fail(ErrorCode::kInvalidArgument, bytes.error().message);
    value = *bytes;
  } else {
    return std::string();
  }
  const auto trimmed = trim(value);
  if (!can_be_token(trimmed)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("what {} holds is empty or has characters that no key can have",
                            quoted(variable.empty() ? file : variable)));
  }
  return std::string(trimmed);
}

}  // namespace tailrace::core
