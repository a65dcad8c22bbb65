// What happens when the program finds itself in a state that cannot be?
//
// It says where and why on standard error and aborts. Always on. Input from outside must never be
// able to reach a failing check: that is an Error (core/result.h).
#pragma once

namespace tailrace::core {
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}  // namespace tailrace::core

#define TAILRACE_CHECK(expression) \
  (static_cast<bool>(expression)   \
       ? static_cast<void>(0)      \
       : ::tailrace::core::check_failed(#expression, __FILE__, __LINE__))
