// Whose errors say how far the families of features are to be believed?
//
// The tenant's own. A tenant whose answers have nothing to do with its prompts, by its nature or to
// do harm, would teach all others that prompts say nothing. So each tenant has a Blend of its own,
// which starts from the one that all share; the shared one learns from everybody by fair shares and
// serves those who are new or do not fit. A table of fixed size; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/blend.h"
#include "predict/image.h"

namespace tailrace::predict {

class TenantBlends {
 public:
  /// `tenant`: a hash of its name; requests without a tenant have one of their own.
  const Blend& of(std::uint64_t tenant) const;
  /// As Blend::learn: `residual` is the error of this tenant's sum, `weight` counts for what is
  /// shared.
  void learn(std::uint64_t tenant, const Blend::Parts& parts, double residual, double sigma,
             bool censored, double weight);

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

  static constexpr std::size_t kTenants = 64;

 private:
  struct Own {
    std::uint64_t tenant = 0;
    std::uint32_t credit = 0;  // how long strangers must knock before it gives way
    Blend blend;
  };
  Own* find_or_claim(std::uint64_t tenant);

  Blend shared_;
  std::vector<Own> own_;
};

}  // namespace tailrace::predict
