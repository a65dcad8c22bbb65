#include "length/goodness_tables.h"

#include <algorithm>
#include <cmath>

#include "length/student_t.h"
#include "tailrace/length/goodness.h"

namespace tailrace::length {
namespace {

struct NullTables {
  Family family;
  NullTable ks;
  NullTable ad;
};

constexpr NullTables kTables[] = {
#include "length/goodness_tables.inc"
};

double logit_at(double node) {
  const double edge = std::log((1 - kNullLeastP) / kNullLeastP);
  return edge * (1 - 2 * node / static_cast<double>(kNullNodes - 1));
}

std::optional<double> fitted_p_value(Family family, std::optional<double> nu, Statistic statistic,
                                     double value, std::size_t n) {
  const NullTable* table = null_table(family, statistic);
  if (table == nullptr || n < kNullLeastCount) return std::nullopt;
  if (family == Family::kLogT && nu != kTieNu) return std::nullopt;
  return null_p_value(*table, value, n);
}

}  // namespace

const NullTable* null_table(Family family, Statistic statistic) {
  for (const NullTables& tables : kTables) {
    if (tables.family == family) return statistic == Statistic::kKs ? &tables.ks : &tables.ad;
  }
  return nullptr;
}

double null_node_p(std::size_t node) {
  return 1 / (1 + std::exp(-logit_at(static_cast<double>(node))));
}

double null_quantile(const NullTable& table, std::size_t node, std::size_t n) {
  const NullQuantile& at = table[node];
  if (n < kNullLeastCount + kNullSmall) return at.small[n - kNullLeastCount];
  const double x = 1 / std::sqrt(static_cast<double>(n));
  double value = 0;
  for (std::size_t term = kNullTerms; term-- > 0;) value = value * x + at.polynomial[term];
  return value;
}

double null_p_value(const NullTable& table, double value, std::size_t n) {
  double low = null_quantile(table, 0, n);
  double node = 0;
  if (value > low) {
    node = static_cast<double>(kNullNodes - 1);
    for (std::size_t i = 1; i < kNullNodes; ++i) {
      const double high = null_quantile(table, i, n);
      if (value < high) {
        node = static_cast<double>(i - 1) + std::log(value / low) / std::log(high / low);
        break;
      }
      low = high;
    }
  }
  return 1 / (1 + std::exp(-logit_at(node)));
}

std::optional<double> ks_p_value_fitted(Family family, std::optional<double> nu, double d,
                                        std::size_t n) {
  return fitted_p_value(family, nu, Statistic::kKs, d * std::sqrt(static_cast<double>(n)), n);
}

std::optional<double> ad_p_value_fitted(Family family, std::optional<double> nu, double a2,
                                        std::size_t n) {
  return fitted_p_value(family, nu, Statistic::kAd, a2, n);
}

}  // namespace tailrace::length
