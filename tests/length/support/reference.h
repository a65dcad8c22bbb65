// Where do the expected values of these tests come from?
//
// From golden/*.csv, committed and made by golden/generate.py at 40 digits; and from the folder of
// shared reference vectors where a machine has it (TAILRACE_SHARED, else ../shared beside the
// source).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/length/length_law.h"

namespace tailrace::length::testing {

using Row = std::map<std::string, double>;

/// The rows of golden/<name>, by column name. Throws where the file cannot be read: it is
/// committed.
std::vector<Row> golden_rows(const std::string& name);

/// One of the published maximum likelihood examples: a sample and what was fitted to it.
struct FitExample {
  std::vector<double> samples;
  Row fixed_nu;
  Row free_nu;
  Row lognormal;
};

struct FamilyRow {
  LengthLaw law;
  Row values;  ///< cap, level, p_cap, cdf, quantile, mean, var, cvar
};

/// The rows of golden/families.json, made by golden/families.py.
std::vector<FamilyRow> family_rows();

struct SharedVectors {
  Row constants;
  std::vector<Row> t_survival;  ///< z, sf, pdf
  std::vector<Row> moments;     ///< both lists of capped moments
  std::vector<Row> whole;       ///< residual_and_gittins
  std::vector<FitExample> mle;
};

/// Nothing where the folder is absent.
std::optional<SharedVectors> shared_vectors();

/// |actual/expected − 1|.
double relative_error(double actual, double expected);

}  // namespace tailrace::length::testing
