// How are the level and the format of the log written in a settings file?
#pragma once

#include "tailrace/core/field.h"
#include "tailrace/core/log.h"

namespace tailrace::core {

Field log_level_field(log::Level& into);    ///< "level"
Field log_format_field(log::Format& into);  ///< "format"

}  // namespace tailrace::core
