// Which keys does the configuration have?
//
// visit_config declares each once. A visitor reads them from YAML, from the environment, or writes
// them into the reference page.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "gateway/config_value.h"
#include "tailrace/core/settings.h"
#include "tailrace/gateway/config.h"

namespace tailrace::gateway {

using core::SchemaVisitor;

/// "predict.mode" → "TAILRACE_PREDICT_MODE".
std::string environment_name(std::string_view path);

/// Sees each key that an environment variable may override, with that variable's name: fields of
/// sections, not of lists and maps.
class OverrideVisitor : public SchemaVisitor {
 public:
  virtual void variable(std::string name, Field field) = 0;

  void field(Field field) final;
  void section(std::string_view name, std::string_view help,
               const std::function<void()>& body) final;
  void list(std::string_view, std::string_view, const std::function<void()>&) final {}
  void map(std::string_view, std::string_view,
           const std::function<void(const std::string&)>&) final {}

 private:
  std::string prefix_;
};

void visit_config(SchemaVisitor& visitor, Config& config);
void visit_backend(SchemaVisitor& visitor, BackendConfig& backend);

}  // namespace tailrace::gateway
