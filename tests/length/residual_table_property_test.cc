// A table that never tells anything else than the definitions, whatever the law.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "length/support/token_sums.h"
#include "tailrace/length/residual_table.h"

namespace tailrace::length {
namespace {

using testing::TokenSums;

double real_in(double lo, double hi) {
  const auto step = *rc::gen::inRange<std::int64_t>(0, 1'000'001);
  return lo + (hi - lo) * static_cast<double>(step) / 1e6;
}

double log_real_in(double lo, double hi) {
  return std::exp(real_in(std::log(lo), std::log(hi)));
}

LengthLaw any_bins() {
  std::vector<double> edges, masses;
  double edge = 0;
  const auto bins = *rc::gen::inRange(1, 60);
  for (int i = 0; i < bins; ++i) {
    const double width = std::max(1.0, edge * real_in(0, 0.4));
    edge += *rc::gen::element(1.0, width, std::floor(width));
    edges.push_back(edge);
    masses.push_back(*rc::gen::element(0.0, real_in(0, 1), real_in(0, 1)));
  }
  masses.push_back(*rc::gen::element(0.0, real_in(0, 1)));
  masses.front() += 1e-3;  // some mass
  return LengthLaw::binned(edges, masses).value();
}

LengthLaw any_plain_law() {
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      return LengthLaw::log_normal(real_in(-1, 9), log_real_in(0.03, 3)).value();
    case 1:
      return LengthLaw::gamma(log_real_in(0.1, 1000), log_real_in(0.1, 1000)).value();
    case 2:
      return LengthLaw::weibull(log_real_in(0.2, 50), log_real_in(0.5, 5000)).value();
    case 3:
      return LengthLaw::exponential(log_real_in(0.5, 1e5)).value();
    case 4:
      return LengthLaw::lomax(log_real_in(0.3, 20), log_real_in(0.5, 5000)).value();
    case 5:
      return any_bins();
    default:
      return LengthLaw::log_t(real_in(-1, 9), log_real_in(0.03, 3),
                              *rc::gen::element(3.5, 3.5, 1.0, 20.0))
          .value();
  }
}

LengthLaw any_law() {
  if (*rc::gen::inRange(0, 3) > 0) return any_plain_law();
  return LengthLaw::mixture(real_in(0, 1), any_plain_law(), any_plain_law()).value();
}

RC_GTEST_PROP(ResidualTableProperty, AnswersWithinAThousandthOfTheDefinitions, ()) {
  const LengthLaw law = any_law();
  const auto cap = static_cast<std::int64_t>(log_real_in(1, 5000));
  const std::int64_t quantum = *rc::gen::element<std::int64_t>(1, 2, 16, 64, 300);
  RC_LOG() << law.describe() << " cap " << cap << " quantum " << quantum << "\n";
  const TokenSums exact(law, cap);
  const ResidualTable table(law, Tokens{cap}, Tokens{quantum});
  for (int i = 0; i < 20; ++i) {
    const auto age = *rc::gen::inRange<std::int64_t>(0, cap);
    if (exact.survival(age) < 1e-280) continue;
    RC_LOG() << "age " << age << "\n";
    const Tokens a{age};
    RC_ASSERT(std::fabs(table.survival(a) / exact.survival(age) - 1) < 1e-3);
    RC_ASSERT(std::fabs(table.mean_residual(a) / exact.mean_residual(age) - 1) < 1e-3);
    RC_ASSERT(std::fabs(table.gittins_rank(a) / exact.gittins_rank(age, quantum) - 1) < 1e-3);
    const double p = real_in(0.01, 0.99);
    const auto until = static_cast<double>(exact.residual_quantile(p, age));
    const auto fast = static_cast<double>(table.residual_quantile(p, a).count());
    RC_ASSERT(std::fabs(fast - until) <= std::max(1.0, 1e-3 * until));
  }
}

RC_GTEST_PROP(ResidualTableProperty, WhatIsLeftIsOneTokenAtLeastAndFitsBelowTheCap, ()) {
  const LengthLaw law = any_law();
  const auto cap = static_cast<std::int64_t>(log_real_in(1, 9e15));
  const ResidualTable table(law, Tokens{cap}, Tokens{16});
  RC_LOG() << law.describe() << " cap " << cap << "\n";
  for (int i = 0; i < 20; ++i) {
    const auto age = static_cast<std::int64_t>(log_real_in(1, static_cast<double>(cap))) - 1;
    const double left = table.mean_residual(Tokens{age});
    const double rank = table.gittins_rank(Tokens{age});
    RC_ASSERT(left >= 1 && left <= static_cast<double>(cap - age));
    RC_ASSERT(rank > 0 && rank <= left);
    const auto until = table.residual_quantile(real_in(0.001, 0.999), Tokens{age}).count();
    RC_ASSERT(until >= 1 && until <= cap - age);
  }
}

}  // namespace
}  // namespace tailrace::length
