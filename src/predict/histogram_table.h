// How long were the answers of one group, bin by bin?
//
// Histograms on the common grid, in a table of fixed size: inventing names evicts only other rarely
// seen names. An answer is spread over the bins near it, the less the more a group has seen. Old
// answers fade, slowly while the group stays as it was and at once when its recent answers fit it
// clearly worse than they used to. One thread; about 0.3 µs to add.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/image.h"
#include "predict/length_bins.h"

namespace tailrace::predict {

struct Histogram {
  std::uint64_t key = 0;     // 0: empty
  float total = 0;           // of both
  std::uint32_t credit = 0;  // how long strangers must knock before it gives way
  float recent = 0;          // mean log score of the last few dozen answers, before they counted
  float usual = 0;           // and of the last few hundred
  bool some_cut = false;
  Bins count{};  // answers that ended in the bin
  Bins cut{};    // answers of which nothing is known from this bin on

  void add(double tokens, float weight);
  /// An answer that was cut: it had not ended by then.
  void add_cut(double tokens, float weight);
  /// Takes back what add_cut added: more has become known of the same answer.
  void take_back_cut(double tokens, float weight);
  /// The histogram's own law, `parent` counting as `strength` answers: at each bin, those that
  /// ended there among those that came so far. `parent` sums to one.
  void shrink_to(const Bins& parent, float strength, Bins& law) const;

 private:
  void notice_drift(std::size_t bin);
  void fade(float left);
};

class HistogramTable {
 public:
  HistogramTable() : groups_(kGroups) {}

  const Histogram* find(std::uint64_t key) const;
  /// The group, or a fresh one in the place of the least deserving, or nothing while that one
  /// resists.
  Histogram* find_or_claim(std::uint64_t key);

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

  static constexpr std::size_t kGroups = 4096;

 private:
  std::vector<Histogram> groups_;
};

/// One histogram outside of a table.
void write(const Histogram& histogram, ImageWriter& out);
bool read(Histogram& histogram, ImageReader& in);

}  // namespace tailrace::predict
