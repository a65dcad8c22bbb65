// Given where a request's answer lies and how wide, what is the law of its length in full?
//
// Several laws on one grid are asked: the log-t of that location and scale and a wider one, the
// histograms of the request's groups from coarse to fine (all → model → kind of call → tenant →
// system prompt), of prompts as long as this one, of requests predicted alike, and of this very
// prompt. A HazardMixer joins what each knows beyond the one it starts from. Last, the mix stands
// in a pool with the plainest of them, weighed by how well each foretold the answers so far, so
// that it can lose to none of those by much. What tenants share is learned with a weight in (0, 1]
// (tenant_shares.h); what is a tenant's own, in full. One thread; about 20 µs to consult, as much
// to learn; 7 MB.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "predict/hazard_mixer.h"
#include "predict/hierarchical_prior.h"
#include "predict/histogram_table.h"
#include "predict/image.h"
#include "predict/length_bins.h"
#include "predict/prompt_memory.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

class OutputLaw {
 public:
  explicit OutputLaw(const PredictorOptions& options);

  /// Masses that sum to one. `law`: location and scale as predicted.
  const Bins& consult(const RequestFeatures& features, const Law& law);
  /// Learns from the answer to the request that was consulted last.
  void learn(const Observation& observation, double weight);
  /// An answer goes on after `tokens`; `before`: what the last such report of it said, 0 for none.
  /// Only groups that do not hang on the prediction learn from it.
  void learn_running(const RequestFeatures& features, Tokens tokens, Tokens before, double weight);
  /// Takes the last such report back: the answer's end is about to be learned.
  void take_back(const RequestFeatures& features, Tokens reported, double weight);

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

 private:
  enum Expert : std::size_t {
    kLogT,
    kWide,
    kAll,
    kModel,
    kCall,
    kTenant,
    kSystem,
    kPromptLength,
    kAlike,
    kPrompt,
    kPromptOfModel,
    kExperts
  };
  static_assert(kExperts <= HazardMixer::kMost);
  static const std::array<float, kExperts> kStart;  // the mixer's weights before anything is known
  using Keys = std::array<std::uint64_t, kExperts>;
  static constexpr std::size_t kPool = 4;  // the mix, log-t, all, the finest group

  static Keys keys_of(const RequestFeatures& features, double mu);
  /// What `expert` says, starting from `parent`: its law, and its log odds beyond the parent's.
  void refine(Expert expert, Expert parent, float strength);
  /// How a tenant's laws are joined. A tenant's own, since what joins the laws of one that sends
  /// constants makes everybody else's too narrow; it starts from the one that all tenants teach.
  struct Joint {
    HazardMixer mixer;
    std::array<double, kPool> pool;
    std::uint64_t tenant = 0;
    std::uint32_t credit = 0;
  };
  static constexpr std::size_t kJoints = 128;

  void join();
  template <class Use>
  void each_lasting_group(const RequestFeatures& features, double weight, Use use);
  const Bins& pooled(std::size_t i) const;
  const Joint& joint_of(std::uint64_t tenant) const;
  Joint* find_or_claim_joint(std::uint64_t tenant);
  void teach(Joint& joint, const std::array<double, kPool>& scores, std::size_t bin, bool cut,
             double passed, double weight);

  Output output_;
  Bins prior_{};  // as configured
  Histogram all_;
  HistogramTable groups_;
  PromptMemory prompts_;
  Joint shared_;
  std::vector<Joint> joints_;
  // Of the request that was consulted last.
  Keys keys_{};
  std::uint64_t tenant_ = 0;
  std::array<Bins, kExperts> laws_{};
  std::array<Bins, kExperts> odds_{};
  std::array<Bins, kExperts> inputs_{};
  Bins mixed_{};
  Bins law_{};
};

/// Bins as a law.
length::LengthLaw to_length_law(const Bins& mass);

}  // namespace tailrace::predict
