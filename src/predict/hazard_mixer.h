// How are several laws of one length joined into one that is better than each?
//
// A length is a row of decisions: at each bin the answer ends or goes on. Each law says log odds
// for each of them; the mix is a weighted sum of those, so that what two laws know apart adds up (a
// talkative model and a prompt for an essay). The weights are a Bayesian logistic regression on all
// decisions seen so far, which starts from given weights. A cut answer has decided only the bins
// before the cut. One thread; a few µs each way.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "predict/image.h"
#include "predict/length_bins.h"

namespace tailrace::predict {

class HazardMixer {
 public:
  static constexpr std::size_t kMost = 12;

  /// `start` are the weights before anything is known.
  explicit HazardMixer(std::span<const float> start);

  /// A mixer that starts from these weights and has learned nothing yet.
  HazardMixer afresh() const;

  /// masses of the mixed law; they sum to one.
  void mix(std::span<const Bins> inputs, Bins& mass) const;
  /// `last` is the bin where the answer ended, or was cut after coming through `passed` of it.
  void learn(std::span<const Bins> inputs, std::size_t last, bool cut, double passed,
             double weight);

  std::span<const double> weights() const { return {weights_.data(), size_}; }

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

 private:
  void odds(std::span<const Bins> inputs, Bins& out) const;

  std::size_t size_;
  std::array<double, kMost> weights_{};
  std::array<std::array<double, kMost>, kMost> precision_{};
};

}  // namespace tailrace::predict
