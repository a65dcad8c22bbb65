// Which distances from a fitted law are usual when the family is right?
//
// Prints src/length/goodness_tables.inc: quantiles of √n·D and of A² under the null hypothesis, for
// the location-scale families (log-t with nu = 3.5, log-normal, Weibull on the log scale, and the
// exponential, of scale alone), whose distances do not depend on the true parameters. Samples are
// drawn from the standard law, fitted by maximum likelihood as length::fit_family does, and
// measured. Quantiles stand as found for the smallest sizes and are smoothed beyond by a polynomial
// in 1/√n, whose constant term is the limit. One thread a family; same seed, same bytes. Run by
// tools/goodness-tables.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <future>
#include <initializer_list>
#include <string>
#include <vector>

#include "length/goodness_tables.h"
#include "length/student_t.h"
#include "tailrace/core/rng.h"

namespace {

using tailrace::Rng;
using tailrace::length::kTieNu;

using tailrace::length::kNullLeastCount;
using tailrace::length::kNullLeastP;
using tailrace::length::kNullNodes;
using tailrace::length::kNullSmall;
using tailrace::length::kNullTerms;
using tailrace::length::null_node_p;

/// The first kNullSmall stand as found; the others are smoothed.
constexpr std::array kSizes = {5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 50, 100, 200, 500};
static_assert(kSizes.front() == kNullLeastCount);
constexpr int kReplicates = 200'000;

/// ln P(T ≤ −z) of the t law, z ≥ 0, by cubic Hermite pieces in asinh(z): within 1e-9.
class TailTable {
 public:
  TailTable() {
    for (int i = 0; i <= kPieces; ++i) {
      const double z = std::sinh(i * kStep);
      const double tail = tailrace::length::t_survival(z, kTieNu);
      value_.push_back(std::log(tail));
      slope_.push_back(-tailrace::length::t_density(z, kTieNu) / tail * std::cosh(i * kStep) *
                       kStep);
    }
  }
  double operator()(double z) const {
    const double x = std::min(std::asinh(z) / kStep, kPieces - 1e-9);
    const auto i = static_cast<std::size_t>(x);
    const double t = x - static_cast<double>(i);
    const double u = 1 - t;
    return u * u * ((1 + 2 * t) * value_[i] + t * slope_[i]) +
           t * t * ((1 + 2 * u) * value_[i + 1] - u * slope_[i + 1]);
  }

 private:
  static constexpr int kPieces = 8000;
  static constexpr double kStep = 0.004;  // to asinh(z) = 32
  std::vector<double> value_, slope_;
};

/// ln F and ln(1 − F) at one value of the fitted law.
struct LogChances {
  double below, above;
};

struct Standard {
  virtual ~Standard() = default;
  virtual const char* name() const = 0;
  virtual double draw(Rng& rng) const = 0;
  /// Fits the ascending sample and writes the fitted law's chances at its values.
  virtual void fit(const std::vector<double>& y, std::vector<LogChances>& out) const = 0;
};

struct StandardLogT final : Standard {
  TailTable tail;
  const char* name() const override { return "kLogT"; }
  double draw(Rng& rng) const override { return rng.student_t(kTieNu); }
  void fit(const std::vector<double>& y, std::vector<LogChances>& out) const override {
    const std::size_t n = y.size();
    double mu = y[n / 2];
    double sigma = 0.6 * (y[n - 1 - n / 4] - y[n / 4]);
    for (int i = 0; i < 1000; ++i) {  // reweighted least squares, expanded-parameter form
      double w0 = 0, w1 = 0, w2 = 0;
      const double scale = 1 / (sigma * sigma * kTieNu);
      for (const double value : y) {
        const double off = value - mu;
        const double w = 1 / (1 + off * off * scale);
        w0 += w;
        w1 += w * off;
        w2 += w * off * off;
      }
      const double shift = w1 / w0;
      const double wider = std::sqrt(w2 / w0 - shift * shift);
      const bool done = std::fabs(shift) + std::fabs(wider - sigma) < 1e-6 * sigma;
      mu += shift;
      sigma = wider;
      if (done) break;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double z = (y[i] - mu) / sigma;
      const double near = tail(std::fabs(z));
      const double far = std::log1p(-std::exp(near));
      out[i] = z < 0 ? LogChances{near, far} : LogChances{far, near};
    }
  }
};

struct StandardLogNormal final : Standard {
  const char* name() const override { return "kLogNormal"; }
  double draw(Rng& rng) const override { return rng.normal(); }
  void fit(const std::vector<double>& y, std::vector<LogChances>& out) const override {
    double sum = 0, squares = 0;
    for (const double value : y) sum += value;
    const double mu = sum / static_cast<double>(y.size());
    for (const double value : y) squares += (value - mu) * (value - mu);
    const double sigma = std::sqrt(squares / static_cast<double>(y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double z = (y[i] - mu) / sigma * std::sqrt(0.5);
      out[i] = {std::log(0.5 * std::erfc(-z)), std::log(0.5 * std::erfc(z))};
    }
  }
};

struct StandardExponential : Standard {
  const char* name() const override { return "kExponential"; }
  double draw(Rng& rng) const override { return rng.exponential(); }
  void fit(const std::vector<double>& y, std::vector<LogChances>& out) const override {
    double sum = 0;
    for (const double value : y) sum += value;
    const double scale = static_cast<double>(y.size()) / sum;
    for (std::size_t i = 0; i < y.size(); ++i) out[i] = chances(y[i] * scale);
  }
  static LogChances chances(double hazard) { return {std::log(-std::expm1(-hazard)), -hazard}; }
};

struct StandardWeibull final : Standard {
  const char* name() const override { return "kWeibull"; }
  double draw(Rng& rng) const override { return std::log(rng.exponential()); }
  void fit(const std::vector<double>& y, std::vector<LogChances>& out) const override {
    const auto n = static_cast<double>(y.size());
    double sum = 0, squares = 0;
    for (const double value : y) sum += value;
    const double mean = sum / n;
    for (const double value : y) squares += (value - mean) * (value - mean);
    double shape = 1.28 / std::sqrt(squares / n);
    double location = 0;
    for (int i = 0; i < 100; ++i) {  // Newton on the profile equation of the shape
      double s0 = 0, s1 = 0, s2 = 0;
      for (const double value : y) {
        const double off = value - mean;
        const double w = std::exp(shape * off);
        s0 += w;
        s1 += w * off;
        s2 += w * off * off;
      }
      const double m = s1 / s0;
      location = mean + std::log(s0 / n) / shape;
      const double step = (m - 1 / shape) / (s2 / s0 - m * m + 1 / (shape * shape));
      if (std::fabs(step) < 1e-10 * shape) break;
      shape = std::max(shape - step, shape / 4);
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      out[i] = StandardExponential::chances(std::exp(shape * (y[i] - location)));
    }
  }
};

struct Quantiles {
  std::array<double, kNullNodes> ks{}, ad{};
  std::array<double, kNullNodes> ks_error{}, ad_error{};  // standard errors
};

/// The value that a share p of the values reach or exceed, and its standard error from the spacing
/// of the order statistics around it.
void read_quantiles(std::vector<double>& values, std::array<double, kNullNodes>& out,
                    std::array<double, kNullNodes>& error) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  for (std::size_t node = 0; node < kNullNodes; ++node) {
    const double p = null_node_p(node);
    const double rank = (1 - p) * count - 0.5;
    const double spread = std::sqrt(p * (1 - p) * count);
    const auto at = [&](double r) {
      const double inside = std::clamp(r, 0.0, count - 1.001);
      const auto low = static_cast<std::size_t>(inside);
      const double part = inside - static_cast<double>(low);
      return values[low] + part * (values[low + 1] - values[low]);
    };
    out[node] = at(rank);
    error[node] = (at(rank + spread) - at(rank - spread)) / 2;
  }
}

Quantiles simulate(const Standard& standard, int n, Rng rng) {
  std::vector<double> y(static_cast<std::size_t>(n)), ks, ad;
  std::vector<LogChances> chances(y.size());
  for (int r = 0; r < kReplicates; ++r) {
    for (double& value : y) value = standard.draw(rng);
    std::sort(y.begin(), y.end());
    standard.fit(y, chances);
    double d = 0, a2 = 0;
    for (int i = 0; i < n; ++i) {
      const LogChances& at = chances[static_cast<std::size_t>(i)];
      const double below = at.above < at.below ? -std::expm1(at.above) : std::exp(at.below);
      d = std::max({d, below - static_cast<double>(i) / n, (i + 1.0) / n - below});
      a2 -= (2 * i + 1) * at.below + (2 * (n - i) - 1) * at.above;
    }
    ks.push_back(d * std::sqrt(n));
    ad.push_back(a2 / n - n);
  }
  Quantiles out;
  read_quantiles(ks, out.ks, out.ks_error);
  read_quantiles(ad, out.ad, out.ad_error);
  return out;
}

using Polynomial = std::array<double, kNullTerms>;

/// Weighted least squares in powers of 1/√n over the larger sizes, by elimination of the normal
/// equations. Reports the worst residual in standard errors.
Polynomial smooth(const std::vector<double>& quantiles, const std::vector<double>& errors,
                  double& worst) {
  std::array<std::array<double, kNullTerms + 1>, kNullTerms> a{};
  const auto powers = [](int n) {
    Polynomial x{};
    double power = 1;
    for (double& term : x) {
      term = power;
      power /= std::sqrt(n);
    }
    return x;
  };
  for (std::size_t s = kNullSmall; s < kSizes.size(); ++s) {
    const Polynomial x = powers(kSizes[s]);
    const double weight = 1 / (errors[s] * errors[s]);
    for (std::size_t i = 0; i < kNullTerms; ++i) {
      for (std::size_t j = 0; j < kNullTerms; ++j) a[i][j] += weight * x[i] * x[j];
      a[i][kNullTerms] += weight * x[i] * quantiles[s];
    }
  }
  for (std::size_t i = 0; i < kNullTerms; ++i) {
    for (std::size_t r = 0; r < kNullTerms; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c <= kNullTerms; ++c) a[r][c] -= factor * a[i][c];
    }
  }
  Polynomial coefficients{};
  for (std::size_t i = 0; i < kNullTerms; ++i) coefficients[i] = a[i][kNullTerms] / a[i][i];
  for (std::size_t s = kNullSmall; s < kSizes.size(); ++s) {
    const Polynomial x = powers(kSizes[s]);
    double fitted = 0;
    for (std::size_t i = 0; i < kNullTerms; ++i) fitted += coefficients[i] * x[i];
    worst = std::max(worst, std::fabs(fitted - quantiles[s]) / errors[s]);
  }
  return coefficients;
}

/// One statistic of a family at every sample size.
struct Curves {
  std::vector<std::array<double, kNullNodes>> quantiles, errors;  // by size, then node
};

std::string table(const char* family, const char* statistic, const Curves& curves) {
  double worst = 0;
  std::string text = fmt::format("     {{{{  // {}\n", statistic);
  for (std::size_t node = 0; node < kNullNodes; ++node) {
    std::vector<double> quantiles, errors;
    for (std::size_t s = 0; s < kSizes.size(); ++s) {
      quantiles.push_back(curves.quantiles[s][node]);
      errors.push_back(curves.errors[s][node]);
    }
    text += "         {{{";
    for (std::size_t s = 0; s < kNullSmall; ++s) {
      text += fmt::format("{}{:.5g}", s == 0 ? "" : ", ", quantiles[s]);
    }
    text += "}}, {{";
    const Polynomial polynomial = smooth(quantiles, errors, worst);
    for (std::size_t term = 0; term < kNullTerms; ++term) {
      text += fmt::format("{}{:.5g}", term == 0 ? "" : ", ", polynomial[term]);
    }
    text += "}}},\n";
  }
  fmt::print(stderr, "{} {}: each smoothed quantile is within {:.1f} standard errors of its own\n",
             family, statistic, worst);
  return text + "     }},\n";
}

std::string tables(const Standard& standard, const Rng& rng) {
  Curves ks, ad;
  for (const int n : kSizes) {
    const Quantiles found =
        simulate(standard, n, rng.fork(fmt::format("{} {}", standard.name(), n)));
    ks.quantiles.push_back(found.ks);
    ks.errors.push_back(found.ks_error);
    ad.quantiles.push_back(found.ad);
    ad.errors.push_back(found.ad_error);
  }
  return fmt::format("    {{Family::{},\n", standard.name()) + table(standard.name(), "√n·D", ks) +
         table(standard.name(), "A²", ad) + "    },\n";
}

}  // namespace

int main() {
  const StandardLogT log_t;
  const StandardLogNormal log_normal;
  const StandardWeibull weibull;
  const StandardExponential exponential;
  const Rng rng(20240501);
  std::vector<std::future<std::string>> parts;
  for (const Standard* standard :
       std::initializer_list<const Standard*>{&log_t, &log_normal, &weibull, &exponential}) {
    parts.push_back(
        std::async(std::launch::async, [standard, &rng] { return tables(*standard, rng); }));
  }
  fmt::print(
      "// Written by tools/goodness-tables; run that to make it anew. A row a node, {} even "
      "steps of logit p\n// from {} to {}: the quantiles for n = {} to {}, then the "
      "coefficients of the powers of 1/√n.\n",
      kNullNodes, 1 - kNullLeastP, kNullLeastP, kNullLeastCount, kNullLeastCount + kNullSmall - 1);
  for (auto& part : parts) fmt::print("{}", part.get());
  return 0;
}
