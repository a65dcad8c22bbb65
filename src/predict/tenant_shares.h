// How much may one tenant move what all tenants share?
//
// Each observation has a weight in (0, 1]. A tenant alone has 1. Where several were active of late,
// none counts more than the others do on average, so that whoever floods the predictor, with honest
// traffic or with lies, moves the shared parameters about as much as anybody else. What belongs to
// a tenant alone is learned at full speed and does not ask here. A table of fixed size; one thread;
// about 0.1 µs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "predict/image.h"

namespace tailrace::predict {

class TenantShares {
 public:
  TenantShares() : tenants_(kTenants) {}

  struct Share {
    double weight = 1;  ///< of this observation in what tenants share; kLeastWeight to 1
    /// True for about `weight` of a tenant's observations, evenly spread: for windows that hold
    /// whole observations.
    bool sampled = true;
  };
  /// Counts one observation of the tenant.
  Share observe(std::string_view tenant);

  /// The weight that its next observation will have, about.
  double weight(std::string_view tenant) const;

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

  static constexpr std::size_t kTenants = 256;
  /// Keeps a deployment learning whose only other traffic is a trickle.
  static constexpr double kLeastWeight = 1.0 / 16;

 private:
  struct Tenant {
    std::uint64_t key = 0;  // 0: empty
    float count = 0;        // of recent observations, fading
    float carry = 0;        // of the sampling, below 1
  };
  Tenant& find_or_claim(std::uint64_t key);
  double weight_of(double own) const;
  void fade();

  std::vector<Tenant> tenants_;
  double total_ = 0;   // of all counts
  double active_ = 0;  // tenants with a count
  std::uint32_t since_fade_ = 0;
};

}  // namespace tailrace::predict
