#include "dataset/date_time.h"

#include <chrono>
#include <cstddef>

namespace tailrace::dataset {
namespace {

constexpr std::int64_t kSecond_ns = 1'000'000'000;

/// Takes fixed fields off the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool empty() const { return rest_.empty(); }
  bool literal(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// Exactly `count` digits.
  bool digits(std::size_t count, int& value) {
    if (rest_.size() < count) return false;
    value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const char c = rest_[i];
      if (c < '0' || c > '9') return false;
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(count);
    return true;
  }
  /// One to nine digits after a point, in nanoseconds.
  bool fraction(std::int64_t& ns) {
    std::int64_t unit = kSecond_ns / 10;
    ns = 0;
    std::size_t taken = 0;
    for (; taken < rest_.size() && rest_[taken] >= '0' && rest_[taken] <= '9'; ++taken) {
      ns += unit * (rest_[taken] - '0');
      unit /= 10;
    }
    rest_.remove_prefix(taken);
    return taken >= 1 && taken <= 9;
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::optional<std::int64_t> parse_date_time(std::string_view text) {
  Scanner scan(text);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!scan.digits(4, year) || !scan.literal('-') || !scan.digits(2, month) || !scan.literal('-') ||
      !scan.digits(2, day) || (!scan.literal(' ') && !scan.literal('T')) || !scan.digits(2, hour) ||
      !scan.literal(':') || !scan.digits(2, minute) || !scan.literal(':') ||
      !scan.digits(2, second)) {
    return std::nullopt;
  }
  std::int64_t ns = 0;
  if (scan.literal('.') && !scan.fraction(ns)) return std::nullopt;
  int zone_min = 0;
  if (!scan.literal('Z') && !scan.empty()) {
    const bool west = scan.literal('-');
    int zone_h = 0;
    if ((!west && !scan.literal('+')) || !scan.digits(2, zone_h)) return std::nullopt;
    scan.literal(':');
    if (!scan.digits(2, zone_min) || zone_h > 23 || zone_min > 59) return std::nullopt;
    zone_min = (west ? -1 : 1) * (zone_h * 60 + zone_min);
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!scan.empty() || !date.ok() || year < 1970 || year > 2200 || hour > 23 || minute > 59 ||
      second > 59) {
    return std::nullopt;
  }
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = days * 86'400 + hour * 3'600 + (minute - zone_min) * 60 + second;
  return seconds * kSecond_ns + ns;
}

}  // namespace tailrace::dataset
