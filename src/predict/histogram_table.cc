#include "predict/histogram_table.h"

#include <algorithm>
#include <cmath>

namespace tailrace::predict {
namespace {

constexpr std::size_t kWays = 8;  // groups that share a set and compete for it
constexpr std::uint32_t kMaxCredit = 1000;
constexpr float kMemory = 8000;  // answers; beyond it the older half fades
constexpr float kMaxCount = 1e6F;
// Half-width of an answer's spread, relative to its length: kWide · n^−1/3, as a density estimate
// wants it.
constexpr double kWide = 0.4, kLeastWidth = 0.02;
// A group has changed when the last dozens of answers score so much worse than the hundreds before:
// some four standard deviations of chance.
constexpr float kRecent = 32, kUsual = 512, kDrop = 0.75F, kEnough = 64;
constexpr float kWorstScore = -8;

}  // namespace

void Histogram::add(double tokens, float weight) {
  if (total >= kEnough) notice_drift(bin_of(tokens));
  const double width = std::max(kLeastWidth, kWide / std::cbrt(static_cast<double>(total) + 1));
  const Spread s = spread(tokens, width);
  for (std::size_t i = 0; i < s.count; ++i) count[s.first + i] += weight * s.part[i];
  total += weight;
  if (total > kMemory) fade(0.5F);
}

void Histogram::add_cut(double tokens, float weight) {
  // It was there for a part of the bin of the cut, so by that part it is counted as having passed.
  const std::size_t bin = bin_of(tokens);
  const auto passed = static_cast<float>(passed_share(bin, tokens));
  cut[bin] += weight * (1 - passed);
  cut[std::min(bin + 1, kEdges)] += weight * passed;
  total += weight;
  some_cut = true;
  if (total > kMemory) fade(0.5F);
}

void Histogram::take_back_cut(double tokens, float weight) {
  const std::size_t bin = bin_of(tokens);
  const auto passed = static_cast<float>(passed_share(bin, tokens));
  const auto take = [this](std::size_t i, float amount) {
    const float taken = std::min(cut[i], amount);  // it may have faded meanwhile
    cut[i] -= taken;
    total = std::max(total - taken, 0.0F);
  };
  take(bin, weight * (1 - passed));
  take(std::min(bin + 1, kEdges), weight * passed);
}

void Histogram::shrink_to(const Bins& parent, float strength, Bins& law) const {
  if (!some_cut) {
    const float scale = 1 / (total + strength);
    for (std::size_t i = 0; i < kBins; ++i) law[i] = (count[i] + strength * parent[i]) * scale;
    return;
  }
  // Of those still there at each bin, from the tail on so that few keep their digits.
  Bins there;
  float beyond = 0;
  for (std::size_t i = kBins; i-- > 0;) {
    there[i] = beyond + count[i] + strength * parent[i];
    beyond = there[i] + cut[i];
  }
  float alive = 1;
  for (std::size_t i = 0; i < kBins; ++i) {
    const float ends = there[i] > 0 ? (count[i] + strength * parent[i]) / there[i] : 0;
    law[i] = i == kEdges ? alive : alive * ends;
    alive *= 1 - ends;
  }
}

void Histogram::notice_drift(std::size_t bin) {
  constexpr float kFloor = 0.05F;
  const float share = (count[bin] + kFloor) / (total + kFloor * static_cast<float>(kBins));
  const float score = std::max(fast_log(share), kWorstScore);
  if (usual == 0) recent = usual = score;
  recent += (score - recent) / kRecent;
  usual += (score - usual) / std::min(total, kUsual);
  if (recent > usual - kDrop) return;
  fade(0.25F);
  recent = usual = 0;
}

void Histogram::fade(float left) {
  total = 0;
  for (Bins* part : {&count, &cut}) {
    for (float& c : *part) total += c *= left;
  }
}

const Histogram* HistogramTable::find(std::uint64_t key) const {
  const std::size_t first = (key % (kGroups / kWays)) * kWays;
  for (std::size_t i = first; i < first + kWays; ++i) {
    if (groups_[i].key == key) return &groups_[i];
  }
  return nullptr;
}

Histogram* HistogramTable::find_or_claim(std::uint64_t key) {
  const std::size_t first = (key % (kGroups / kWays)) * kWays;
  Histogram* poorest = &groups_[first];
  for (std::size_t i = first; i < first + kWays; ++i) {
    Histogram& group = groups_[i];
    if (group.key == key) {
      group.credit = std::min(group.credit + 1, kMaxCredit);
      return &group;
    }
    if (group.credit < poorest->credit) poorest = &group;
  }
  if (poorest->credit > 0) --poorest->credit;
  if (poorest->credit > 0) return nullptr;
  *poorest = Histogram{};
  poorest->key = key;
  poorest->credit = 1;
  return poorest;
}

namespace {

void write_head(const Histogram& h, ImageWriter& out) {
  out.u64(h.key);
  out.f32(h.total);
  out.u32(h.credit);
  out.f32(h.recent);
  out.f32(h.usual);
  out.u8(h.some_cut ? 1 : 0);
}

bool read_head(Histogram& h, ImageReader& in) {
  h.key = in.u64();
  h.total = in.f32_within(0, static_cast<double>(kMaxCount));
  h.credit = std::min(in.u32(), kMaxCredit);
  h.recent = in.f32_within(-10, 0);
  h.usual = in.f32_within(-10, 0);
  h.some_cut = in.u8() == 1;
  return in.ok() && h.key != 0;
}

bool counts_are_sane(const Histogram& h) {
  const auto sane = [](float c) { return c >= 0; };
  return std::all_of(h.count.begin(), h.count.end(), sane) &&
         std::all_of(h.cut.begin(), h.cut.end(), sane);
}

}  // namespace

void write(const Histogram& histogram, ImageWriter& out) {
  write_head(histogram, out);
  out.table(histogram.count);
  out.table(histogram.cut);
}

bool read(Histogram& histogram, ImageReader& in) {
  if (!read_head(histogram, in)) return false;
  in.table(histogram.count, kMaxCount);
  in.table(histogram.cut, kMaxCount);
  return in.ok() && counts_are_sane(histogram);
}

void HistogramTable::write(ImageWriter& out) const {
  std::vector<float> counts;
  for (std::size_t i = 0; i < kGroups; ++i) {
    if (groups_[i].key == 0) continue;
    out.u32(static_cast<std::uint32_t>(i));
    write_head(groups_[i], out);
    counts.insert(counts.end(), groups_[i].count.begin(), groups_[i].count.end());
    counts.insert(counts.end(), groups_[i].cut.begin(), groups_[i].cut.end());
  }
  out.u32(kGroups);  // end mark: no such place
  out.table(counts);
}

bool HistogramTable::read(ImageReader& in) {
  HistogramTable loaded;
  std::vector<std::size_t> places;
  while (in.ok()) {
    const std::uint32_t place = in.u32();
    if (place == kGroups) break;
    if (place > kGroups || (!places.empty() && place <= places.back())) return false;
    if (!read_head(loaded.groups_[place], in)) return false;
    places.push_back(place);
  }
  std::vector<float> counts(in.ok() ? places.size() * 2 * kBins : 0);
  in.table(counts, kMaxCount);
  if (!in.ok()) return false;
  for (std::size_t p = 0; p < places.size(); ++p) {
    Histogram& group = loaded.groups_[places[p]];
    const auto from = counts.begin() + static_cast<std::ptrdiff_t>(2 * p * kBins);
    std::copy_n(from, kBins, group.count.begin());
    std::copy_n(from + kBins, kBins, group.cut.begin());
    if (!counts_are_sane(group)) return false;
  }
  *this = std::move(loaded);
  return true;
}

}  // namespace tailrace::predict
