// How is a callback passed that owns what it captured?
//
// std::function wants copyable captures and std::move_only_function is C++23. UniqueFunction is the
// move-only one: empty after a move, calling an empty one is a failed check.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "tailrace/core/check.h"

namespace tailrace {

template <class Signature>
class UniqueFunction;

template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, UniqueFunction> &&
                                              std::is_invocable_r_v<R, std::decay_t<F>&, Args...>>>
  UniqueFunction(F&& f)  // NOLINT(google-explicit-constructor)
      : target_(std::make_unique<Target<std::decay_t<F>>>(std::forward<F>(f))) {}

  explicit operator bool() const { return target_ != nullptr; }

  R operator()(Args... args) {
    TAILRACE_CHECK(target_ != nullptr);
    return target_->call(std::forward<Args>(args)...);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F>
  struct Target final : Base {
    explicit Target(F f) : function(std::move(f)) {}
    R call(Args... args) override { return function(std::forward<Args>(args)...); }
    F function;
  };
  std::unique_ptr<Base> target_;
};

using Task = UniqueFunction<void()>;

}  // namespace tailrace
