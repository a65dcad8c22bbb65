// What do a request's features add to its group's law?
//
// Two linear models on hashed features in one table of fixed size. Location: a Bayesian regression
// with one variance per weight (a diagonal Kalman filter), so that a rare word moves fast and a
// common one settles, with Student-t weighting, so that an outlier hardly moves anything. Its sums
// by family of features are weighed by the tenant's Blend, and each model answers what the prompt
// asks for in its own measure: a slope per model on what the prompt says. ln sigma: AdaGrad on the
// censored likelihood. One pass over the data, no replay. One thread; a few µs each way.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/hierarchical_prior.h"
#include "predict/image.h"
#include "predict/request_text.h"
#include "predict/tenant_blends.h"

namespace tailrace::predict {

class LinearModel {
 public:
  /// 2^table_bits weights of 16 bytes.
  explicit LinearModel(int table_bits);

  /// `base_mu` is the group's location. What is unknown about the weights widens sigma.
  /// `tenant`: a hash of its name.
  Law predict(double base_mu, const FeatureList& features, std::uint64_t tenant) const;
  /// `weight` in (0, 1] is the share of a full observation that this one counts where tenants share
  /// a weight; what is a tenant's own learns in full.
  void learn(double base_mu, const FeatureList& features, std::uint64_t tenant, double y,
             bool censored, double weight = 1);

  struct Shift {
    std::size_t place = 0;  ///< of its weight; features at one place cannot be told apart
    double mu = 0;          ///< what the feature adds to the location
  };
  /// One for each feature, in order.
  std::vector<Shift> shifts(const FeatureList& features, std::uint64_t tenant) const;

  void write(ImageWriter& out) const;
  /// On false the model holds parts of the image: read into a fresh one.
  bool read(ImageReader& in);

 private:
  struct Weight {
    float mean = 0;
    float variance = 0;  // of the mean
    float log_sigma = 0;
    float squares = 0;  // of log_sigma's gradients
  };
  static constexpr float Weight::* kMembers[] = {&Weight::mean, &Weight::variance,
                                                 &Weight::log_sigma, &Weight::squares};
  struct Sums {
    Blend blend;  // the tenant's, as it was for this sum
    Blend::Parts parts{};
    double slope = 0;  // what the prompt says, from its usual value: the per-model slope's input
    double text = 0;   // what the prompt says
    double mean = 0;
    double variance = 0;
    double log_sigma = 0;
  };
  Sums sum(const FeatureList& features, std::uint64_t tenant) const;
  double input(const Sums& sums, const Feature& feature) const;
  void move_location(const FeatureList& features, const Sums& sums, double residual, bool censored,
                     double weight);
  void move_scale(const FeatureList& features, const Sums& sums, double residual, bool censored,
                  double weight);
  std::size_t index(std::uint64_t hash) const {
    return static_cast<std::size_t>(hash >> (64 - table_bits_));
  }

  int table_bits_;
  std::vector<Weight> weights_;
  TenantBlends blends_;
  double log_sigma_ = 0;  // of a request about whose features nothing is known
  double samples_ = 0;
  double usual_text_ = 0;  // what prompts say on average
};

}  // namespace tailrace::predict
