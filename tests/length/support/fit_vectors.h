// Samples whose best fit is known: the shared reference vectors, and golden/fits.json.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/length/fit.h"

namespace tailrace::length::testing {

/// One sample with the numbers of one of its fits ("fixed_nu", "gamma", …), by name.
struct KnownFit {
  LengthSample sample;
  std::string fit;
  std::map<std::string, double> numbers;
  bool at_bound = false;
};

struct MleVectors {
  std::vector<KnownFit> fits;
  std::vector<KnownFit> near_degenerate;  ///< proper maxima just short of the criterion
};

/// Nothing where the shared folder is absent.
std::optional<MleVectors> shared_mle_vectors();

/// golden/fits.json, made by golden/generate_fits.py.
std::vector<KnownFit> golden_fits();

/// Σ ln density + censored · ln survival, from the law's own answers: another road than the fit's.
double loglik_of(const LengthLaw& law, const LengthSample& sample);

}  // namespace tailrace::length::testing
