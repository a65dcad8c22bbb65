// How are two counts kept from being mixed up?
//
// A Strong<Tag, Rep> is a number that only meets its own kind: explicit in, explicit out
// (`count()`), and the arithmetic that makes sense for a quantity.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace tailrace {

template <class Tag, class Rep>
class Strong {
 public:
  constexpr Strong() = default;
  constexpr explicit Strong(Rep value) : value_(value) {}
  constexpr Rep count() const { return value_; }
  friend constexpr auto operator<=>(Strong, Strong) = default;
  friend constexpr Strong operator+(Strong a, Strong b) { return Strong(a.value_ + b.value_); }
  friend constexpr Strong operator-(Strong a, Strong b) { return Strong(a.value_ - b.value_); }
  constexpr Strong& operator+=(Strong b) { return *this = *this + b; }
  constexpr Strong& operator-=(Strong b) { return *this = *this - b; }

 private:
  Rep value_{};
};

struct TokensTag {};
/// A number of whole tokens: a prompt, a cap, an answer. Averages are plain doubles.
using Tokens = Strong<TokensTag, std::int64_t>;

struct JobIdTag {};
/// A job inside one process. Ids grow in arrival order, so they break ties.
using JobId = Strong<JobIdTag, std::uint64_t>;

}  // namespace tailrace

template <class Tag, class Rep>
struct std::hash<tailrace::Strong<Tag, Rep>> {
  std::size_t operator()(tailrace::Strong<Tag, Rep> v) const { return std::hash<Rep>{}(v.count()); }
};
