// What does the environment say about settings and secrets?
//
// A variable overrides the key of a settings file that its name spells: "predict.mode" and
// "TAILRACE_PREDICT_MODE". Only fields of sections have such names, those of lists and maps do not.
// Secrets are named in a file and read from a variable or from a file of their own.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/core/settings.h"
#include "tailrace/core/text.h"

namespace tailrace::core {

/// Looks a name up in the environment. An argument, so that tests have their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();
Environment no_environment();

/// "predict.mode" → "TAILRACE_PREDICT_MODE".
std::string environment_name(std::string_view path, std::string_view prefix = "TAILRACE_");

/// Sees each key that an environment variable may override, with that variable's name.
class OverrideVisitor : public SchemaVisitor {
 public:
  explicit OverrideVisitor(std::string_view prefix = "TAILRACE_") : names_(prefix) {}
  virtual void variable(std::string name, Field field) = 0;

  void field(Field field) final;
  void section(std::string_view name, std::string_view help,
               const std::function<void()>& body) final;
  void list(std::string_view, std::string_view, const std::function<void()>&) final {}
  void map(std::string_view, std::string_view,
           const std::function<void(const std::string&)>&) final {}

 private:
  std::string names_, path_;
};

/// Overrides fields by environment variables, lists by items between commas; what cannot be read
/// goes to `problems`.
class EnvironmentReader final : public OverrideVisitor {
 public:
  EnvironmentReader(const Environment& environment, Problems& problems,
                    std::string_view prefix = "TAILRACE_")
      : OverrideVisitor(prefix), environment_(environment), problems_(problems) {}

  void variable(std::string name, Field field) override;

 private:
  const Environment& environment_;
  Problems& problems_;
};

/// The text of a settings file.
struct SettingsText {
  std::string_view text;
  std::string_view origin;  ///< for messages
  std::size_t bytes_max;
  std::string_view prefix = "TAILRACE_";  ///< of the variables that override its keys
};
/// Reads it by the schema `visit`, lets the environment override, then has `check` look for what no
/// single key can tell. An empty text sets nothing. Errors: kInvalidArgument with all problems.
Result<void> read_settings(const SettingsText& given, const Environment& environment,
                           const std::function<void(SchemaVisitor&)>& visit,
                           const std::function<void(Problems&)>& check);

/// Not empty, and nothing but visible ASCII: a header's value that cannot end the header.
bool can_be_token(std::string_view text);

/// The key or token in `variable` or, where that is empty, in `file`; "" where both are. White
/// space at its ends does not count. Errors: kInvalidArgument where it is not there, is empty, or
/// has characters that no header may have.
Result<std::string> read_secret(const std::string& variable, const std::string& file,
                                const Environment& environment);

/// What `parse` makes of the file at `path`, once `complete` has read what else it names. Errors:
/// those of read_regular_file() and of both, with the path.
template <class Config>
Result<Config> load_settings(const std::string& path, std::size_t bytes_max,
                             const std::function<Result<Config>(std::string_view text)>& parse,
                             const std::function<Result<void>(Config&)>& complete) {
  const auto text = read_regular_file(path, bytes_max);
  if (!text) return fail(text.error());
  auto config = parse(*text);
  if (!config) return config;
  if (const auto done = complete(*config); !done) return fail(done.error().with_context(path));
  return config;
}

}  // namespace tailrace::core
