#include "tailrace/simulate/predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace tailrace::simulate {
namespace {

using Kind = PredictorSpec::Kind;

LengthSpec lengths() {
  LengthSpec spec;
  spec.mu_mean = 4.8;
  spec.mu_sd = 1.2;
  spec.sigma_median = 0.4;
  spec.sigma_spread = 0.35;
  return spec;
}

std::vector<Request> requests(std::uint64_t count) {
  WorkloadSpec spec;
  spec.arrivals.count = count;
  spec.lengths = lengths();
  auto workload = *make_workload(spec, Rng(7));
  std::vector<Request> all;
  Request request;
  while (*workload->next(request)) all.push_back(request);
  return all;
}

std::unique_ptr<LengthPredictor> predictor(const PredictorSpec& spec) {
  return *make_predictor(spec, lengths(), Rng(3));
}

struct Line {
  double r2 = 0;
  double slope = 0;  // of y on x
};
Line line(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  return {xy * xy / xx / yy, xy / xx};
}

/// tau-b is tau-a here but for ties of whole lengths, which are few.
double kendall(const std::vector<double>& x, const std::vector<double>& y) {
  std::int64_t concordant = 0, discordant = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double s = (x[i] - x[j]) * (y[i] - y[j]);
      if (s > 0) ++concordant;
      if (s < 0) ++discordant;
    }
  }
  return static_cast<double>(concordant - discordant) /
         static_cast<double>(concordant + discordant);
}

TEST(Predictor, NoisyLawExplainsTheStatedShareOfLocationAndScale) {
  PredictorSpec spec{.kind = Kind::kNoisyLaw, .r2_mu = 0.55, .r2_sigma = 0.3};
  auto p = predictor(spec);
  std::vector<double> mu, mu_hat, sigma, sigma_hat;
  for (const Request& r : requests(20'000)) {
    const auto law = p->predict(r);
    mu.push_back(r.truth->as_log_t()->mu);
    sigma.push_back(std::log(r.truth->as_log_t()->sigma));
    mu_hat.push_back(law->as_log_t()->mu);
    sigma_hat.push_back(std::log(law->as_log_t()->sigma));
  }
  EXPECT_NEAR(line(mu_hat, mu).r2, 0.55, 0.015);
  EXPECT_NEAR(line(mu_hat, mu).slope, 1, 0.02);  // shrunk: on average it is right about itself
  EXPECT_NEAR(line(sigma_hat, sigma).r2, 0.3, 0.015);
  EXPECT_NEAR(line(sigma_hat, sigma).slope, 1, 0.03);
}

TEST(Predictor, PointAndRankHaveTheStatedTau) {
  const auto all = requests(3'000);
  for (const Kind kind : {Kind::kPoint, Kind::kRank}) {
    for (const double tau : {0.17, 0.22, 0.47, 0.64}) {
      PredictorSpec spec{.kind = kind};
      spec.tau = tau;
      auto p = predictor(spec);
      std::vector<double> predicted, drawn;
      for (const Request& r : all) {
        predicted.push_back(p->predict(r)->median());
        drawn.push_back(static_cast<double>(r.output.count()));
      }
      EXPECT_NEAR(kendall(predicted, drawn), tau, 0.025);
    }
  }
}

TEST(Predictor, RankTellsTheOrderOfThePointAndNothingElse) {
  PredictorSpec point{.kind = Kind::kPoint, .r2_mu = 0.4};
  PredictorSpec rank{.kind = Kind::kRank, .r2_mu = 0.4};
  auto a = predictor(point), b = predictor(rank);
  std::vector<double> points, ranks;
  for (const Request& r : requests(2'000)) {
    points.push_back(a->predict(r)->median());
    ranks.push_back(b->predict(r)->median() / 2048);
  }
  EXPECT_EQ(kendall(points, ranks), 1);
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_NEAR(ranks[i], static_cast<double>(i) / 2000, 0.04);  // uniform: no scale left
  }
}

double covered(LengthPredictor& p, const std::vector<Request>& all, double level) {
  int inside = 0;
  for (const Request& r : all) {
    const auto law = p.predict(r);
    const auto length = static_cast<double>(r.output.count());
    // A whole length x stands for (x − 1, x]; the cap stands for all beyond it.
    const double above = std::ceil(law->quantile(0.5 + level / 2));
    const double below = std::ceil(law->quantile(0.5 - level / 2));
    inside += length <= above && (length > below || below <= 1);
  }
  return inside / static_cast<double>(all.size());
}

TEST(Predictor, CalibratedLawCoversWhatItsIntervalsPromise) {
  const auto all = requests(10'000);
  for (const double r2 : {0.2, 0.55, 0.82}) {
    PredictorSpec spec{.kind = Kind::kNoisyLaw, .r2_mu = r2, .r2_sigma = 0.5};
    auto bold = predictor(spec);
    spec.calibrated = true;
    auto calibrated = predictor(spec);
    EXPECT_NEAR(covered(*calibrated, all, 0.5), 0.5, 0.05) << r2;
    EXPECT_NEAR(covered(*calibrated, all, 0.9), 0.9, 0.03) << r2;
    EXPECT_LT(covered(*bold, all, 0.5), 0.45) << r2;
    EXPECT_LT(covered(*bold, all, 0.9), 0.87) << r2;
  }
}

TEST(Predictor, AnswersTheSameInWhateverOrderItIsAsked) {
  PredictorSpec spec{.kind = Kind::kNoisyLaw, .r2_mu = 0.5, .r2_sigma = 0.5};
  spec.nu_error = 0.3;
  spec.r2_refined = 0.8;
  auto forwards = predictor(spec), backwards = predictor(spec);
  auto all = requests(50);
  std::vector<length::LengthLaw> laws, refined;
  for (const Request& r : all) {
    laws.push_back(*forwards->predict(r));
    refined.push_back(*forwards->refine(r, Tokens(120)));
  }
  for (std::size_t i = all.size(); i-- > 0;) {
    EXPECT_EQ(*backwards->refine(all[i], Tokens(120)), refined[i]);
    EXPECT_EQ(*backwards->predict(all[i]), laws[i]);
  }
}

TEST(Predictor, PerfectPredictionIsTheLawItself) {
  auto p = predictor({.kind = Kind::kNoisyLaw});
  auto oracle = predictor({.kind = Kind::kOracleLaw});
  for (const Request& r : requests(20)) {
    EXPECT_NEAR(p->predict(r)->as_log_t()->mu, r.truth->as_log_t()->mu, 1e-12);
    EXPECT_NEAR(p->predict(r)->as_log_t()->sigma, r.truth->as_log_t()->sigma, 1e-12);
    EXPECT_EQ(oracle->predict(r), r.truth);
  }
}

TEST(Predictor, TrueLengthKnowsTheLength) {
  auto p = predictor({.kind = Kind::kTrueLength});
  for (const Request& r : requests(20)) {
    EXPECT_NEAR(p->predict(r)->median(), static_cast<double>(r.output.count()), 1e-6 * 2048);
  }
}

TEST(Predictor, LogNormalBelieverKeepsTheSpreadOfLogT) {
  PredictorSpec spec{.kind = Kind::kNoisyLaw};
  spec.family = PredictorSpec::Family::kLogNormal;
  auto p = predictor(spec);
  const Request r = requests(1).front();
  const auto law = p->predict(r);
  ASSERT_EQ(law->family(), length::Family::kLogNormal);
  const double sd = std::log(law->quantile(0.841344746) / law->median());
  EXPECT_NEAR(sd, r.truth->as_log_t()->sigma * std::sqrt(3.5 / 1.5), 1e-6);
}

TEST(Predictor, PredictedNuScattersAroundTheTrueOne) {
  PredictorSpec spec{.kind = Kind::kNoisyLaw};
  spec.nu_error = 0.4;
  auto p = predictor(spec);
  double sum = 0, squares = 0;
  const auto all = requests(5'000);
  for (const Request& r : all) {
    const double e = std::log(p->predict(r)->as_log_t()->nu / 3.5);
    sum += e;
    squares += e * e;
  }
  EXPECT_NEAR(sum / 5'000, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 5'000), 0.4, 0.02);
}

TEST(Predictor, RefinementGetsCloserAsTheAnswerGrows) {
  PredictorSpec spec{.kind = Kind::kNoisyLaw, .r2_mu = 0.3};
  spec.r2_refined = 0.85;
  auto p = predictor(spec);
  double early = 0, late = 0;
  for (const Request& r : requests(2'000)) {
    EXPECT_FALSE(p->refine(r, Tokens(49)).has_value());
    if (r.output.count() < 200) continue;
    const double truth = std::log(static_cast<double>(r.output.count()));
    const Tokens near_end(r.output.count() - 10);
    EXPECT_GT(p->refine(r, near_end)->median(), static_cast<double>(near_end.count() / 50 * 50));
    early += std::abs(std::log(p->refine(r, Tokens(50))->median()) - truth);
    late += std::abs(std::log(p->refine(r, near_end)->median()) - truth);
  }
  EXPECT_LT(late, early / 3);
}

TEST(Predictor, RefinedRemainderHasTheStatedQuality) {
  PredictorSpec spec{.kind = Kind::kNoisyLaw, .r2_mu = 0.3};
  spec.r2_refined = 0.85;
  auto p = predictor(spec);
  double squares = 0, n = 0;
  for (const Request& r : requests(20'000)) {
    if (r.output.count() < 51) continue;
    const auto left = static_cast<double>(r.output.count() - 50);
    const double e = std::log((p->refine(r, Tokens(50))->median() - 50) / left);
    squares += e * e;
    ++n;
  }
  // Var ln length = 1.2² + E sigma² · nu/(nu − 2); R² 0.85 leaves 15 % of it.
  const double variance = 1.44 + 0.16 * std::exp(2 * 0.35 * 0.35) * 3.5 / 1.5;
  EXPECT_NEAR(squares / n, 0.15 * variance, 0.01);
}

TEST(Predictor, LengthsOfATraceArePredictedWithTheStatedQuality) {
  PredictorSpec spec{.kind = Kind::kNoisyLaw, .r2_mu = 0.6};
  auto unknowing = predictor(spec);
  spec.log_mean = 4.8;
  spec.log_sd = 1.35;
  auto p = predictor(spec);
  std::vector<double> predicted, drawn;
  auto all = requests(10'000);
  for (Request& r : all) {
    r.truth.reset();
    EXPECT_FALSE(unknowing->predict(r).has_value());
    predicted.push_back(p->predict(r)->as_log_t()->mu);
    drawn.push_back(std::log(static_cast<double>(r.output.count())));
  }
  EXPECT_NEAR(line(predicted, drawn).r2, 0.6, 0.03);
  EXPECT_NEAR(covered(*p, all, 0.5), 0.5, 0.06);
  EXPECT_NEAR(covered(*p, all, 0.9), 0.9, 0.04);
}

TEST(Predictor, OnlineTellsTenantsApartOnceItHasSeenThem) {
  auto p = predictor({.kind = Kind::kOnline});
  Rng rng(5);
  Request r;
  r.cap = Tokens(2048);
  r.prompt = Tokens(100);
  for (int i = 0; i < 600; ++i) {
    r.id = static_cast<std::uint64_t>(i);
    r.tenant = i % 2 == 0 ? "short" : "long";
    const double mean = i % 2 == 0 ? 20 : 900;
    r.output = Tokens(1 + static_cast<std::int64_t>(mean * (0.5 + rng.uniform())));
    p->report(r, Tokens(r.output.count() / 2));
    p->learn(r);
  }
  r.tenant = "short";
  EXPECT_LT(p->predict(r)->median(), 60);
  r.tenant = "long";
  EXPECT_GT(p->predict(r)->median(), 400);
}

/// What the predictor says of a newcomer while 40 requests are being written and none has ended,
/// all having got to `written` tokens.
double median_with_running(std::int64_t written) {
  auto p = predictor({.kind = Kind::kOnline});
  Request r;
  r.cap = Tokens(16'384);
  r.prompt = Tokens(100);
  r.tenant = "writers";
  for (int i = 0; i < 40; ++i) {
    r.id = static_cast<std::uint64_t>(i);
    (void)p->predict(r);
    for (std::int64_t at = 100; at <= written; at += 100) p->report(r, Tokens(at));
  }
  r.id = 40;
  return p->predict(r)->median();
}

TEST(Predictor, OnlineHearsThatAnswersGoOnBeforeAnyHasEnded) {
  const double unheard = median_with_running(0);
  EXPECT_EQ(median_with_running(500), unheard) << "no report before 512 tokens";
  EXPECT_GT(median_with_running(4096), 1.2 * unheard);
}

TEST(Predictor, OnlineRemembersWhatAPromptBeganWithWhenThePrefixIsGone) {
  auto p = predictor({.kind = Kind::kOnline});
  Rng rng(6);
  Request r;
  r.cap = Tokens(2048);
  r.prompt = Tokens(100);
  for (int i = 0; i < 600; ++i) {
    r.id = static_cast<std::uint64_t>(i);
    r.prefix.ids = {i % 2 == 0 ? 11u : 22u};
    (void)p->predict(r);
    r.prefix.ids.clear();
    const double mean = i % 2 == 0 ? 20 : 900;
    r.output = Tokens(1 + static_cast<std::int64_t>(mean * (0.5 + rng.uniform())));
    p->learn(r);
  }
  r.id = 600;
  r.prefix.ids = {11};
  EXPECT_LT(p->predict(r)->median(), 60);
  r.prefix.ids = {22};
  EXPECT_GT(p->predict(r)->median(), 400);
}

TEST(Predictor, SaysWhatIsWrongWithASpec) {
  const auto message = [](const std::function<void(PredictorSpec&)>& spoil) {
    PredictorSpec spec{.kind = Kind::kNoisyLaw};
    spoil(spec);
    const auto made = make_predictor(spec, lengths(), Rng(1));
    return made ? std::string("accepted") : made.error().message;
  };
  EXPECT_EQ(message([](PredictorSpec& s) { s.r2_mu = 1.5; }),
            "predictor.r2_mu: 1.5 is not allowed; give a number from 0 to 1");
  EXPECT_EQ(message([](PredictorSpec& s) { s.r2_sigma = std::nan(""); }),
            "predictor.r2_sigma: nan is not allowed; give a number from 0 to 1");
  EXPECT_EQ(message([](PredictorSpec& s) { s.refine_every = 0; }),
            "predictor.refine_every: 0 is not allowed; give 1 token or more");
  EXPECT_NE(message([](PredictorSpec& s) {
              s.kind = Kind::kRank;
              s.tau = 0.9;
            }).find("predictor.tau: 0.9 is not possible with these lengths"),
            std::string::npos);
  EXPECT_NE(message([](PredictorSpec& s) {
              s.family = PredictorSpec::Family::kLogNormal;
              s.nu = 2;
            }).find("more than 2"),
            std::string::npos);
}

}  // namespace
}  // namespace tailrace::simulate
