// Which numbers, choices and words do a fuzzer's bytes stand for?
//
// Every byte string means something, and an exhausted one means zeros. Numbers come in families: in
// the range that a program would meet, anywhere on the scale of the doubles, and the awkward ones
// by name, so that a mutation of one byte moves from one to the other.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tailrace::fuzz {

class InputBytes {
 public:
  InputBytes(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return first;
  }
  /// From 0 to `most`, at most 255.
  int up_to(int most) { return byte() % (most + 1); }
  bool flag() { return (byte() & 1) != 0; }

  template <class T, std::size_t N>
  const T& one_of(const T (&values)[N]) {
    return values[byte() % N];
  }

  std::string_view bytes(std::size_t count) {
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return bytes(rest_.size()); }

  /// Around `usual`, or anything: 0, negative, denormal, 1e308, infinite, NaN, any bits.
  double number(double usual) {
    const int family = byte();
    if (family < 160) return usual * std::exp((family - 80) / 20.0);
    if (family < 200) return std::pow(10.0, up_to(80) / 2.0 - 20);
    if (family < 250) {
      static constexpr double kAwkward[] = {0,
                                            -0.0,
                                            1,
                                            -1,
                                            0.5,
                                            2,
                                            1e9,
                                            1e9 + 1,
                                            1e12,
                                            1e-12,
                                            1e18,
                                            1e308,
                                            -1e308,
                                            2.3e-308,
                                            std::numeric_limits<double>::denorm_min(),
                                            std::numeric_limits<double>::epsilon(),
                                            std::numeric_limits<double>::infinity(),
                                            -std::numeric_limits<double>::infinity(),
                                            std::numeric_limits<double>::quiet_NaN()};
      return one_of(kAwkward);
    }
    double any = 0;
    const auto raw = bytes(sizeof any);
    std::memcpy(&any, raw.data(), raw.size());
    return any;
  }
  std::optional<double> maybe(double usual) {
    if (byte() >= 240) return std::nullopt;
    return number(usual);
  }
  /// Within [low, high] on a logarithmic scale, or one of the two ends. 0 < low < high.
  double between(double low, double high) {
    const int share = byte();
    if (share == 0) return low;
    if (share == 255) return high;
    return low * std::pow(high / low, share / 255.0);
  }
  std::int64_t whole(std::int64_t usual) {
    static constexpr std::int64_t kAwkward[] = {0,
                                                1,
                                                -1,
                                                2,
                                                1'000'000'000,
                                                1'000'000'001,
                                                1'000'000'000'000,
                                                std::numeric_limits<std::int64_t>::max(),
                                                std::numeric_limits<std::int64_t>::min()};
    const int family = byte();
    if (family >= 200) return one_of(kAwkward);
    return (256 * family + byte()) % (2 * usual + 1);
  }

 private:
  std::string_view rest_;
};

}  // namespace tailrace::fuzz
