// How is a field of a workload refused, so that its reader knows what to change?
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::simulate {

/// False for a NaN.
inline bool in_range(double value, double least, double most) {
  return value >= least && value <= most;
}

class FieldCheck {
 public:
  explicit FieldCheck(std::string section) : section_(std::move(section)) {}

  template <class T>
  tl::unexpected<Error> bad(std::string_view field, T value, std::string_view remedy) const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}.{} is {}; it must be {}", section_, field, value, remedy));
  }
  tl::unexpected<Error> missing(std::string_view field, std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}.{} is missing; say {}", section_, field, what));
  }

 private:
  std::string section_;
};

}  // namespace tailrace::simulate
