#include "tailrace/core/log_field.h"

namespace tailrace::core {

Field log_level_field(log::Level& into) {
  return choice_field("level", into,
                      {{"debug", log::Level::kDebug},
                       {"info", log::Level::kInfo},
                       {"warn", log::Level::kWarn},
                       {"error", log::Level::kError}},
                      "Least severe events that are logged.");
}

Field log_format_field(log::Format& into) {
  return choice_field("format", into,
                      {{"logfmt", log::Format::kLogfmt}, {"json", log::Format::kJson}},
                      "How a line looks.");
}

}  // namespace tailrace::core
