#include "tailrace/core/token_pace.h"

#include <cmath>

namespace tailrace {
namespace {

/// A bin is long enough that prompts fall into that of the iteration which computed them, and short
/// enough that the batch hardly changes in it.
constexpr Duration kBinLeast = std::chrono::seconds(1), kBinMost = std::chrono::seconds(5);
constexpr double kBinIterations = 32;
/// Blocks with anything in them, and the part of the batch's square by which it must vary.
constexpr std::size_t kBlocksLeast = 4;
constexpr double kVariesLeast = 1e-6;

}  // namespace

void TokenPaceMeter::Sums::add(const Bin& bin) {
  const double w = bin.iterations;
  const double mean_n = bin.gaps / w, mean_k = bin.firsts / w, mean_g = bin.time_ms / w;
  weight += w;
  n += w * mean_n, k += w * mean_k, g += w * mean_g;
  nn += w * mean_n * mean_n, nk += w * mean_n * mean_k, kk += w * mean_k * mean_k;
  ng += w * mean_n * mean_g, kg += w * mean_k * mean_g;
}

void TokenPaceMeter::Sums::add(const Sums& other, double sign) {
  weight += sign * other.weight;
  n += sign * other.n, k += sign * other.k, g += sign * other.g;
  nn += sign * other.nn, nk += sign * other.nk, kk += sign * other.kk;
  ng += sign * other.ng, kg += sign * other.kg;
}

std::optional<double> TokenPaceMeter::Sums::slope() const {
  if (!(weight > 0)) return std::nullopt;
  const double n_var = nn - n * n / weight, k_var = kk - k * k / weight;
  const double nk_cov = nk - n * k / weight;
  double free = n_var;  // of what k explains
  double cov = ng - n * g / weight;
  if (k_var > kVariesLeast * kk) {
    free -= nk_cov * nk_cov / k_var;
    cov -= nk_cov / k_var * (kg - k * g / weight);
  }
  if (!(free > kVariesLeast * nn)) return std::nullopt;
  const double slope = cov / free;
  return std::isfinite(slope) ? std::optional(slope) : std::nullopt;
}

void TokenPaceMeter::move_to(MonoTime now) {
  const Duration lasts = now - bin_began_;
  const bool ends = lasts >= kBinMost || (lasts >= kBinLeast && bin_.iterations >= kBinIterations);
  if (!ends) return;
  if (bin_.iterations >= 1) {
    const std::int64_t number = number_at(bin_began_);
    Block& block = blocks_[static_cast<std::size_t>(number) % kBlocks];
    if (block.number != number) block = {number, {}};
    block.sums.add(bin_);
  }
  bin_ = {};
  bin_began_ = now;
}

void TokenPaceMeter::gap(MonoTime now, Duration gap, std::uint64_t streams) {
  move_to(now);
  const double share = 1 / static_cast<double>(std::max<std::uint64_t>(1, streams));
  ++bin_.gaps;
  bin_.iterations += share;
  bin_.time_ms += share * to_millis(gap);
}

void TokenPaceMeter::iteration(MonoTime now, Duration gap, std::uint64_t streams) {
  move_to(now);
  bin_.gaps += static_cast<double>(streams);
  ++bin_.iterations;
  bin_.time_ms += to_millis(gap);
}

void TokenPaceMeter::first_token(MonoTime now, std::uint64_t others) {
  move_to(now);
  if (others > 0) ++bin_.firsts;  // nobody else's gap was longer for it
}

std::optional<TokenPace> TokenPaceMeter::at(MonoTime now) const {
  const std::int64_t newest = number_at(now);
  Sums all;
  std::size_t blocks = 0;
  const auto counts = [&](const Block& block) {
    return block.sums.weight > 0 && newest - block.number < static_cast<std::int64_t>(kBlocks);
  };
  for (const Block& block : blocks_) {
    if (!counts(block)) continue;
    all.add(block.sums, 1);
    ++blocks;
  }
  const auto slope = all.slope();
  if (blocks < kBlocksLeast || !slope) return std::nullopt;
  double mean = 0, square = 0;
  for (const Block& block : blocks_) {
    if (!counts(block)) continue;
    Sums others = all;
    others.add(block.sums, -1);
    const auto without = others.slope();
    if (!without) return std::nullopt;
    mean += *without;
    square += *without * *without;
  }
  const auto count = static_cast<double>(blocks);
  mean /= count;
  const double variance = (count - 1) * std::max(0.0, square / count - mean * mean);
  const double error = std::sqrt(variance);
  if (!std::isfinite(error)) return std::nullopt;
  return TokenPace{all.g / all.weight, *slope, error};
}

}  // namespace tailrace
