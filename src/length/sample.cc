#include "tailrace/length/sample.h"

#include <cmath>
#include <limits>

#include "length/families.h"
#include "tailrace/length/binned.h"

namespace tailrace::length {
namespace {

// Beyond this shape the rejection of Boost.Random's gamma generator compares numbers that have
// cancelled, while the cube of a normal (Wilson and Hilferty; Marsaglia and Tsang's proposal) is
// off by a probability of less than 1/shape.
constexpr double kLargestGeneratedShape = 1e8;

double draw(const LogT& law, Rng& rng) {
  return std::exp(law.mu + law.sigma * rng.student_t(law.nu));
}

double draw(const LogNormal& law, Rng& rng) {
  return std::exp(law.mu + law.sigma * rng.normal());
}

double draw(const Gamma& law, Rng& rng) {
  if (law.shape <= kLargestGeneratedShape) return law.scale * rng.gamma(law.shape);
  const double d = law.shape - 1.0 / 3;
  const double root = 1 + rng.normal() / (3 * std::sqrt(d));
  return law.scale * d * root * root * root;
}

double draw(const Weibull& law, Rng& rng) {
  return law.scale * std::pow(rng.exponential(), 1 / law.shape);
}

double draw(const Exponential& law, Rng& rng) {
  return law.scale * rng.exponential();
}

double draw(const Lomax& law, Rng& rng) {
  return law.scale * std::expm1(rng.exponential() / law.shape);
}

double draw(const Binned& law, Rng& rng) {
  return law.inverse_survival(1 - rng.uniform());
}

double draw(const Mixture& law, Rng& rng) {
  return sample(rng.uniform() < law.weight ? law.first : law.second, rng);
}

double bounded(double tokens) {
  // Written so that not-a-number, an infinity times zero inside a generator, is bounded too.
  if (!(tokens > std::numeric_limits<double>::min())) return std::numeric_limits<double>::min();
  return std::fmin(tokens, std::numeric_limits<double>::max());
}

}  // namespace

double sample(const LengthLaw& law, Rng& rng) {
  return law.visit([&rng](const auto& family) { return bounded(draw(family, rng)); });
}

}  // namespace tailrace::length
