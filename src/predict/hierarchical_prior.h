// What is a request's length law by its group alone?
//
// A chain of groups from coarse to fine: all → family of models → model → kind of call → tenant →
// system prompt. Each
// holds its offset in (mu, ln sigma) from the one above, learned on what the coarser ones leave
// over; a young group's offset is shrunk towards zero. Groups live in a table of fixed size;
// inventing names evicts only other rarely seen names. One thread at a time; about 1 µs each way.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "predict/image.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

/// Location and scale of a log-t law while it is being learned.
struct Law {
  double mu = 0;
  double log_sigma = 0;
};

class HierarchicalPrior {
 public:
  static constexpr std::size_t kLevels =
      5;  ///< below "all": family, model, call, tenant, system prompt
  static constexpr std::size_t kGroups = 8192;

  HierarchicalPrior(double prior_mu, double prior_sigma);

  Law predict(const RequestFeatures& features) const;
  /// `y`: log length (log_t_score.h). `weight` in (0, 1]: the share of a full observation that this
  /// one counts in what tenants share; the tenant's own groups learn in full.
  void observe(const RequestFeatures& features, double y, bool censored, double weight = 1);
  /// What each level adds to the location, from coarse to fine; 0 for a group that is not known.
  std::array<double, kLevels> offsets(const RequestFeatures& features) const;

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

 private:
  struct Group {
    std::uint64_t key = 0;  // 0: empty
    float mu = 0;           // offset from the coarser groups
    float log_sigma = 0;
    float weight = 0;          // observations, up to kMemory
    std::uint32_t credit = 0;  // how long strangers must knock before it gives way
  };
  using Keys = std::array<std::uint64_t, kLevels>;

  static Keys keys_of(const RequestFeatures& features);
  const Group* find(std::uint64_t key) const;
  /// The group, or a fresh one in the place of the least deserving, or nothing while that one
  /// resists.
  Group* find_or_claim(std::uint64_t key);

  Law all_;
  double weight_ = 0;
  std::vector<Group> groups_;
};

}  // namespace tailrace::predict
