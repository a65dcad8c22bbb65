#include "tailrace/simulate/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tailrace/predict/predictor.h"

namespace tailrace::simulate {
namespace {

using Kind = PredictorSpec::Kind;
using Law = std::optional<length::LengthLaw>;

// A law that says "this long": narrow, yet a law.
constexpr double kPointSigma = 1e-3;
// Laws of lengths stay within what LengthLaw takes, whatever was asked of them.
constexpr double kLogBound = 600;

Law point(double log_length) {
  return *length::LengthLaw::log_normal(std::clamp(log_length, -kLogBound, kLogBound), kPointSigma);
}

double log_output(const Request& request) {
  return std::log(static_cast<double>(std::max<std::int64_t>(1, request.output.count())));
}

/// sd of mu's estimation error and the law's own scale, joined (predictor.h, `calibrated`).
double widened(double sigma, double error_sd) {
  constexpr double kPower = 1.8;
  constexpr double kNormal = 0.817;  // scale of the most likely log-t of nu 3.5 for a normal
  return std::pow(std::pow(sigma, kPower) + std::pow(kNormal * error_sd, kPower), 1 / kPower);
}

/// What a request's law is estimated from: its own parameters, and how they spread between
/// requests.
struct Parameters {
  double mu, mu_mean, mu_sd;
  double log_sigma, log_sigma_mean, log_sigma_sd;
  double nu;
};

class None final : public LengthPredictor {
 public:
  Law predict(const Request&) override { return std::nullopt; }
};

class Stated final : public LengthPredictor {
 public:
  Stated(const PredictorSpec& spec, const LengthSpec& lengths, Rng rng)
      : spec_(spec), lengths_(lengths), rng_(std::move(rng)) {}

  Law predict(const Request& request) override {
    if (spec_.kind == Kind::kTrueLength) return point(log_output(request));
    if (spec_.kind == Kind::kOracleLaw) return request.truth;
    const auto known = parameters(request);
    // A law of another family is the same for all requests: there is nothing to estimate.
    if (!known) return point_unless_law(request.truth);
    Rng chance = of(request);
    const double mu = shrunk(known->mu, known->mu_mean, known->mu_sd, spec_.r2_mu, chance);
    if (spec_.kind == Kind::kPoint) return point(mu);
    if (spec_.kind == Kind::kRank) return rank(mu, *known);
    return law(*known, mu, chance);
  }

  Law refine(const Request& request, Tokens attained) override {
    if (!spec_.r2_refined || attained.count() < spec_.refine_every) return std::nullopt;
    const std::int64_t window = attained.count() / spec_.refine_every;
    const std::int64_t seen = window * spec_.refine_every;
    const auto left = static_cast<double>(std::max<std::int64_t>(1, request.output.count() - seen));
    // Errors of one request hang together from one window to the next, as those of a model do.
    const double own = of(request).normal();
    const double fresh = of(request).fork(fmt::format("{}", window)).normal();
    const double error_sd = length_sd() * std::sqrt(1 - *spec_.r2_refined);
    const double estimate = left * std::exp(error_sd * (own + fresh) / std::numbers::sqrt2);
    const double whole = static_cast<double>(seen) + estimate;
    const double sigma = std::max(kPointSigma, error_sd * estimate / whole);
    return *length::LengthLaw::log_normal(std::min(std::log(whole), kLogBound), sigma);
  }

 private:
  Rng of(const Request& request) const { return rng_.fork(fmt::format("{}", request.id)); }

  /// Nothing where the law is not log-t and the lengths' spread is not known either.
  std::optional<Parameters> parameters(const Request& request) const {
    if (request.truth) {
      const length::LogT* law = request.truth->as_log_t();
      if (law == nullptr) return std::nullopt;
      return Parameters{law->mu,
                        lengths_.mu_mean,
                        lengths_.mu_sd,
                        std::log(law->sigma),
                        std::log(lengths_.sigma_median),
                        lengths_.sigma_spread,
                        spec_.nu.value_or(law->nu)};
    }
    if (!spec_.log_mean || !spec_.log_sd) return std::nullopt;
    const double unexplained = *spec_.log_sd * std::sqrt(1 - spec_.r2_mu);
    const double log_sigma = std::log(std::max(kPointSigma, widened(0, unexplained)));
    return Parameters{
        log_output(request),   *spec_.log_mean, *spec_.log_sd, log_sigma, log_sigma, 0,
        spec_.nu.value_or(3.5)};
  }

  /// The best linear estimate of R² r2: its errors are independent of itself.
  static double shrunk(double value, double mean, double sd, double r2, Rng& chance) {
    return mean + r2 * (value - mean) + std::sqrt(r2 * (1 - r2)) * sd * chance.normal();
  }

  Law law(const Parameters& known, double mu, Rng& chance) const {
    const double log_sigma =
        shrunk(known.log_sigma, known.log_sigma_mean, known.log_sigma_sd, spec_.r2_sigma, chance);
    double sigma = std::exp(std::clamp(log_sigma, -20.0, 20.0));
    if (spec_.calibrated) sigma = widened(sigma, known.mu_sd * std::sqrt(1 - spec_.r2_mu));
    const double centre = std::clamp(mu, -kLogBound, kLogBound);
    if (spec_.family == PredictorSpec::Family::kLogNormal) {
      return *length::LengthLaw::log_normal(centre, sigma * std::sqrt(known.nu / (known.nu - 2)));
    }
    const double nu = known.nu * std::exp(spec_.nu_error * chance.normal());
    return *length::LengthLaw::log_t(centre, sigma, std::clamp(nu, 0.5, 1000.0));
  }

  /// An order and no more: the place among all predictions, as a share of the lengths' cap.
  Law rank(double mu, const Parameters& known) const {
    const double sd = known.mu_sd * std::sqrt(spec_.r2_mu);
    if (sd == 0) return point(std::log(static_cast<double>(lengths_.cap) / 2));
    const double share = 0.5 * std::erfc((known.mu_mean - mu) / sd / std::numbers::sqrt2);
    return point(std::log(std::max(share * static_cast<double>(lengths_.cap), 1e-9)));
  }

  Law point_unless_law(const Law& truth) const {
    if (!truth || spec_.kind == Kind::kNoisyLaw) return truth;
    return point(std::log(std::max(truth->median(), 1e-9)));
  }

  /// Of ln length between requests.
  double length_sd() const {
    if (spec_.log_sd) return *spec_.log_sd;
    // E sigma² of a log-normal; the t's own variance has no end below nu 2, so its scale counts.
    const double sigma2 = lengths_.sigma_median * lengths_.sigma_median *
                          std::exp(2 * lengths_.sigma_spread * lengths_.sigma_spread);
    const double factor = lengths_.nu > 2.5 ? lengths_.nu / (lengths_.nu - 2) : 5;
    return std::sqrt(lengths_.mu_sd * lengths_.mu_sd + sigma2 * factor);
  }

  PredictorSpec spec_;
  LengthSpec lengths_;
  Rng rng_;
};

/// The gateway's predictor, fed as the gateway feeds it: with what a simulated request shows.
class Online final : public LengthPredictor {
 public:
  Online() : predictor_(predict::make_online_predictor()) {}

  Law predict(const Request& request) override {
    Known& known = known_[request.id];
    if (!request.prefix.ids.empty()) known.system = request.prefix.ids.front();
    const predict::RequestFeatures features = features_of(request, known);
    return predictor_->predict({&features, 1}).front().law;
  }

  void report(const Request& request, Tokens attained) override {
    constexpr std::int64_t kFirstReport = 512;  // as the gateway: shorter answers end before it
    if (attained.count() < kFirstReport) return;
    Known& known = known_[request.id];
    if (attained.count() < 2 * known.reported.count()) return;
    predictor_->observe(features_of(request, known),
                        {attained, /*censored=*/true, /*running=*/true, known.reported});
    known.reported = attained;
  }

  void learn(const Request& request) override {
    const Known known = known_[request.id];
    known_.erase(request.id);
    predictor_->observe(features_of(request, known),
                        {request.output, request.output >= request.cap, false, known.reported});
  }

 private:
  /// Of a request that has been predicted and has not ended. Its owner may have given the prefix
  /// away by then.
  struct Known {
    std::uint64_t system = 0;
    Tokens reported{0};
  };

  static predict::RequestFeatures features_of(const Request& request, const Known& known) {
    predict::RequestFeatures features;
    features.tenant = request.tenant;
    features.route = "chat";
    features.system_fingerprint = known.system;
    features.prompt_tokens = request.prompt;
    features.cap = request.cap;
    features.cap_is_explicit = request.cap_is_own;
    return features;
  }

  std::unique_ptr<predict::Predictor> predictor_;
  std::unordered_map<std::uint64_t, Known> known_;
};

Result<void> check(const PredictorSpec& spec) {
  const auto reject = [](std::string_view field, double value, std::string_view allowed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("predictor.{}: {} is not allowed; give {}", field, value, allowed));
  };
  const auto share = [](double r2) { return r2 >= 0 && r2 <= 1; };
  if (!share(spec.r2_mu)) return reject("r2_mu", spec.r2_mu, "a number from 0 to 1");
  if (!share(spec.r2_sigma)) return reject("r2_sigma", spec.r2_sigma, "a number from 0 to 1");
  if (spec.r2_refined && !share(*spec.r2_refined)) {
    return reject("r2_refined", *spec.r2_refined, "a number from 0 to 1");
  }
  if (spec.refine_every < 1) {
    return reject("refine_every", static_cast<double>(spec.refine_every), "1 token or more");
  }
  if (spec.nu && !(*spec.nu >= 0.5 && *spec.nu <= 1000)) {
    return reject("nu", *spec.nu, "a number from 0.5 to 1000");
  }
  if (!(spec.nu_error >= 0 && spec.nu_error <= 5)) {
    return reject("nu_error", spec.nu_error, "a number from 0 to 5");
  }
  if (spec.log_mean && !(std::abs(*spec.log_mean) <= 20)) {
    return reject("log_mean", *spec.log_mean, "a number from -20 to 20");
  }
  if (spec.log_sd && !(*spec.log_sd >= 0 && *spec.log_sd <= 10)) {
    return reject("log_sd", *spec.log_sd, "a number from 0 to 10");
  }
  return {};
}

/// Pairs of requests differ in ln length by a normal (their mu) and by two t's, which are normals
/// of chance variance; given that variance the pair is bivariate normal, and its concordance is an
/// arcsine. These are draws of (2·sd²)/(2·sd² + variance).
std::vector<double> explained_shares(const LengthSpec& lengths) {
  constexpr int kDraws = 20'000;
  Rng rng(1);
  std::vector<double> shares;
  shares.reserve(kDraws);
  const double between = 2 * lengths.mu_sd * lengths.mu_sd;
  const auto variance = [&] {
    const double sigma = lengths.sigma_median * std::exp(lengths.sigma_spread * rng.normal());
    return sigma * sigma * lengths.nu / (2 * rng.gamma(lengths.nu / 2));
  };
  for (int i = 0; i < kDraws; ++i) {
    const double within = variance() + variance();
    shares.push_back(between / (between + within));
  }
  return shares;
}

double tau_of(double r2, const std::vector<double>& shares) {
  double sum = 0;
  for (const double share : shares) sum += std::asin(std::sqrt(r2 * share));
  return 2 / std::numbers::pi * sum / static_cast<double>(shares.size());
}

}  // namespace

Result<double> r2_for_tau(double tau, const LengthSpec& lengths) {
  const std::vector<double> shares = explained_shares(lengths);
  const double largest = lengths.kind == LengthSpec::Kind::kLogT ? tau_of(1, shares) : 0;
  if (!(tau >= 0 && tau <= largest)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("predictor.tau: {} is not possible with these lengths; give a number "
                            "from 0 to {:.3f}",
                            tau, largest));
  }
  double low = 0, high = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (tau_of(middle, shares) < tau ? low : high) = middle;
  }
  return (low + high) / 2;
}

Result<std::unique_ptr<LengthPredictor>> make_predictor(const PredictorSpec& spec,
                                                        const LengthSpec& lengths, const Rng& rng) {
  if (auto valid = check(spec); !valid) return fail(valid.error());
  if (spec.kind == Kind::kNone) return std::make_unique<None>();
  if (spec.kind == Kind::kOnline) return std::make_unique<Online>();
  PredictorSpec resolved = spec;
  if (spec.tau && spec.log_sd) {
    // Prediction and ln length are then one normal pair.
    resolved.r2_mu = std::pow(std::sin(std::numbers::pi / 2 * *spec.tau), 2);
  } else if (spec.tau) {
    const auto r2 = r2_for_tau(*spec.tau, lengths);
    if (!r2) return fail(r2.error());
    resolved.r2_mu = *r2;
  }
  if (spec.family == PredictorSpec::Family::kLogNormal && spec.nu.value_or(lengths.nu) <= 2) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("predictor.family: a log-normal has no finite sigma for lengths of nu "
                            "{}; it needs more than 2",
                            spec.nu.value_or(lengths.nu)));
  }
  return std::make_unique<Stated>(resolved, lengths, rng.fork("predictor"));
}

}  // namespace tailrace::simulate
