#include "tailrace/simulate/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

namespace tailrace::simulate {
namespace {

using Requests = std::vector<Request>;

Result<Requests> requests_of(const WorkloadSpec& spec, std::uint64_t seed = 1) {
  auto workload = make_workload(spec, Rng(seed));
  if (!workload) return fail(workload.error());
  Requests all;
  Request request;
  for (;;) {
    auto more = (*workload)->next(request);
    if (!more) return fail(more.error());
    if (!*more) return all;
    all.push_back(request);
  }
}

Requests made(const WorkloadSpec& spec, std::uint64_t seed = 1) {
  auto all = requests_of(spec, seed);
  EXPECT_TRUE(all.has_value()) << all.error().message;
  return all ? std::move(*all) : Requests{};
}

WorkloadSpec of_arrivals(ArrivalSpec::Kind kind, double rate, double duration_s) {
  WorkloadSpec spec;
  spec.arrivals.kind = kind;
  spec.arrivals.rate = rate;
  spec.arrivals.duration_s = duration_s;
  spec.lengths.kind = LengthSpec::Kind::kFixed;
  return spec;
}

WorkloadSpec of_count(std::uint64_t count) {
  WorkloadSpec spec;
  spec.arrivals.count = count;
  return spec;
}

struct Moments {
  double mean = 0, variance = 0;
  double cv() const { return std::sqrt(variance) / mean; }
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / n;
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

std::vector<double> gaps(const Requests& all) {
  std::vector<double> out;
  for (std::size_t i = 1; i < all.size(); ++i) {
    out.push_back(to_seconds(all[i].arrival - all[i - 1].arrival));
  }
  return out;
}

/// Variance over mean of the counts in windows: 1 for Poisson.
double index_of_dispersion(const Requests& all, double window_s, double duration_s) {
  std::vector<double> counts(static_cast<std::size_t>(duration_s / window_s), 0.0);
  for (const Request& r : all) {
    const auto at = static_cast<std::size_t>(to_seconds(r.arrival) / window_s);
    if (at < counts.size()) ++counts[at];
  }
  const Moments m = moments(counts);
  return m.variance / m.mean;
}

std::vector<double> outputs(const Requests& all) {
  std::vector<double> out;
  for (const Request& r : all) out.push_back(static_cast<double>(r.output.count()));
  return out;
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

TEST(Arrivals, PoissonHasItsRateAndIndependentGaps) {
  const Requests all = made(of_arrivals(ArrivalSpec::Kind::kPoisson, 50, 4'000));
  EXPECT_NEAR(static_cast<double>(all.size()) / 4'000, 50, 0.4);
  EXPECT_NEAR(moments(gaps(all)).cv(), 1, 0.01);
  EXPECT_NEAR(index_of_dispersion(all, 2, 4'000), 1, 0.1);
}

TEST(Arrivals, GammaGapsHaveTheirVariation) {
  for (const double cv : {0.3, 3.0}) {
    WorkloadSpec spec = of_arrivals(ArrivalSpec::Kind::kGamma, 50, 4'000);
    spec.arrivals.cv = cv;
    const Moments m = moments(gaps(made(spec)));
    EXPECT_NEAR(m.mean, 0.02, 0.02 * 0.025) << cv;
    EXPECT_NEAR(m.cv(), cv, 0.03 * cv);
  }
}

TEST(Arrivals, GammaGapsKeepTheirRateFromTheFirstSecondOn) {
  // A renewal process that begins with an arrival sends (cv² - 1)/2 = 4 too many.
  WorkloadSpec spec = of_arrivals(ArrivalSpec::Kind::kGamma, 10, 5);
  spec.arrivals.cv = 3;
  double sent = 0;
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    sent += static_cast<double>(made(spec, seed).size()) / 3'000;
  }
  EXPECT_NEAR(sent, 50, 1.6);
}

TEST(Arrivals, MarkovModulatedOnesAreAsDispersedAsTheFormulaSays) {
  WorkloadSpec spec = of_arrivals(ArrivalSpec::Kind::kMarkov, 5, 100'000);
  spec.arrivals.high = 4;
  spec.arrivals.low_sojourn_s = 60;
  spec.arrivals.high_sojourn_s = 10;
  const Requests all = made(spec);
  const double rate = (60 * 5.0 + 10 * 20.0) / 70;
  EXPECT_DOUBLE_EQ(mean_rate(spec.arrivals), rate);
  EXPECT_NEAR(static_cast<double>(all.size()) / 100'000, rate, 0.02 * rate);
  // Heffes and Lucantoni, 1986: the index of dispersion for counts of a two-state MMPP.
  const double a = 1.0 / 60, b = 1.0 / 10;
  for (const double t : {2.0, 10.0, 100.0}) {
    const double limit =
        2 * (20 - 5.0) * (20 - 5.0) * a * b / ((a + b) * (a + b) * (5 * b + 20 * a));
    const double expected = 1 + limit * (1 - (1 - std::exp(-(a + b) * t)) / ((a + b) * t));
    EXPECT_NEAR(index_of_dispersion(all, t, 100'000), expected, 0.1 * expected) << t;
  }
}

TEST(Arrivals, SinusoidSwingsAroundItsMean) {
  WorkloadSpec spec = of_arrivals(ArrivalSpec::Kind::kSinusoid, 10, 60'000);
  spec.arrivals.amplitude = 0.8;
  spec.arrivals.period_s = 60;
  std::vector<double> quarters(4, 0.0);
  for (const Request& r : made(spec)) {
    ++quarters[static_cast<std::size_t>(std::fmod(to_seconds(r.arrival), 60) / 15)];
  }
  // The mean of sin over a quarter of the period is ± 2/π.
  const double swing = 0.8 * 2 / std::numbers::pi;
  const double each = 10 * 60'000.0 / 4;
  EXPECT_NEAR(quarters[0], each * (1 + swing), 0.01 * each);
  EXPECT_NEAR(quarters[1], each * (1 + swing), 0.01 * each);
  EXPECT_NEAR(quarters[2], each * (1 - swing), 0.01 * each);
  EXPECT_NEAR(quarters[3], each * (1 - swing), 0.01 * each);
}

TEST(Arrivals, SpikesHoldTheirShareAndEndEveryPeriod) {
  WorkloadSpec spec = of_arrivals(ArrivalSpec::Kind::kSpikes, 10, 30'000);
  spec.arrivals.high = 8;
  spec.arrivals.period_s = 30;
  spec.arrivals.spike_s = 3;
  const Requests all = made(spec);
  double in_spikes = 0;
  for (const Request& r : all) in_spikes += std::fmod(to_seconds(r.arrival), 30) >= 27 ? 1 : 0;
  EXPECT_DOUBLE_EQ(mean_rate(spec.arrivals), 17);
  EXPECT_NEAR(static_cast<double>(all.size()) / 30'000, 17, 0.2);
  EXPECT_NEAR(in_spikes / static_cast<double>(all.size()), 240.0 / (270 + 240), 0.01);
}

TEST(Arrivals, AllAtOnceComeAtTimeZero) {
  WorkloadSpec spec = of_count(20);
  spec.arrivals.kind = ArrivalSpec::Kind::kAtOnce;
  const Requests all = made(spec);
  ASSERT_EQ(all.size(), 20u);
  for (const Request& r : all) EXPECT_EQ(r.arrival, MonoTime{});
}

TEST(Lengths, TheHierarchyHasTheTailOfTheFacts) {
  // 5.1 of the capacity facts: N(4.8, 1.2), sigma around 0.4, nu 3.5, cap 2048 gives mean 269, P50
  // 123, P90 666, 47 % of all tokens in the longest tenth, E[1/length] 0.020.
  WorkloadSpec spec = of_count(100'000);
  spec.lengths.mu_mean = 4.8;
  spec.lengths.mu_sd = 1.2;
  spec.lengths.sigma_median = 0.4;
  spec.lengths.sigma_spread = 0.35;
  std::vector<double> tokens = outputs(made(spec));
  const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  double inverse = 0;
  for (const double t : tokens) inverse += 1 / t / 100'000;
  EXPECT_NEAR(sum / 100'000, 269, 0.02 * 269);
  EXPECT_NEAR(percentile(tokens, 0.5), 123, 0.03 * 123);
  EXPECT_NEAR(percentile(tokens, 0.9), 666, 0.04 * 666);
  EXPECT_NEAR(inverse, 0.020, 0.001);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_NEAR(std::accumulate(tokens.end() - 10'000, tokens.end(), 0.0) / sum, 0.47, 0.015);
  EXPECT_EQ(tokens.back(), 2048);
  EXPECT_GE(tokens.front(), 1);
}

TEST(Lengths, MuAndSigmaSpreadAndCorrelateAsAsked) {
  WorkloadSpec spec = of_count(50'000);
  spec.lengths.correlation = -0.6;
  std::vector<double> mus, log_sigmas, products;
  for (const Request& r : made(spec)) {
    const length::LogT* law = r.truth->as_log_t();
    ASSERT_NE(law, nullptr);
    EXPECT_EQ(law->nu, 3.5);
    mus.push_back(law->mu);
    log_sigmas.push_back(std::log(law->sigma));
  }
  const Moments mu = moments(mus), log_sigma = moments(log_sigmas);
  for (std::size_t i = 0; i < mus.size(); ++i) {
    products.push_back((mus[i] - mu.mean) * (log_sigmas[i] - log_sigma.mean));
  }
  EXPECT_NEAR(mu.mean, 4.6, 0.02);
  EXPECT_NEAR(std::sqrt(mu.variance), 0.9, 0.01);
  EXPECT_NEAR(std::exp(log_sigma.mean), 0.75, 0.01);
  EXPECT_NEAR(std::sqrt(log_sigma.variance), 0.3, 0.005);
  EXPECT_NEAR(moments(products).mean / std::sqrt(mu.variance * log_sigma.variance), -0.6, 0.02);
}

TEST(Lengths, FixedAndExponentialHaveTheirMoments) {
  WorkloadSpec spec = of_count(100'000);
  spec.lengths.cap = 1 << 20;
  spec.lengths.mean = 40;
  spec.lengths.kind = LengthSpec::Kind::kFixed;
  for (const double tokens : outputs(made(spec))) EXPECT_EQ(tokens, 40);
  spec.lengths.kind = LengthSpec::Kind::kExponential;
  const Moments m = moments(outputs(made(spec)));
  EXPECT_NEAR(m.mean, 40, 0.5);
  EXPECT_NEAR(m.cv(), std::sqrt(1 - 1.0 / 40), 0.015) << "that of a geometric law";
}

TEST(Lengths, AreCutAtTheirCapAndRaisedToTheLeast) {
  WorkloadSpec spec = of_count(5'000);
  spec.lengths.least = 50;
  spec.lengths.cap = 200;
  const std::vector<double> tokens = outputs(made(spec));
  EXPECT_EQ(percentile(tokens, 0), 50);
  EXPECT_EQ(percentile(tokens, 1), 200);
}

TEST(Prompts, LogNormalOnesHaveTheirMeanAndVariation) {
  WorkloadSpec spec = of_count(100'000);
  spec.prompts.kind = PromptSpec::Kind::kLogNormal;
  spec.prompts.mean = 1155;
  spec.prompts.cv = 0.96;
  std::vector<double> tokens;
  for (const Request& r : made(spec)) tokens.push_back(static_cast<double>(r.prompt.count()));
  EXPECT_NEAR(moments(tokens).mean, 1155, 12);
  EXPECT_NEAR(moments(tokens).cv(), 0.96, 0.025);
}

TEST(Classes, ComeInTheirSharesEachWithItsOwnLengths) {
  WorkloadSpec spec = of_count(20'000);
  spec.classes.resize(2);
  spec.classes[0].tenant = "chat";
  spec.classes[0].share = 3;
  spec.classes[0].deadline_s = 2;
  spec.classes[0].priority = 5;
  spec.classes[1].tenant = "batch";
  spec.classes[1].weight = 0.1;
  spec.classes[1].lengths.emplace();
  spec.classes[1].lengths->kind = LengthSpec::Kind::kFixed;
  spec.classes[1].lengths->mean = 777;
  double chats = 0;
  for (const Request& r : made(spec)) {
    if (r.tenant == "chat") {
      ++chats;
      EXPECT_EQ(r.deadline, r.arrival + std::chrono::seconds(2));
      EXPECT_EQ(r.priority, 5);
    } else {
      EXPECT_EQ(r.tenant, "batch");
      EXPECT_EQ(r.output.count(), 777);
      EXPECT_EQ(r.weight, 0.1);
      EXPECT_FALSE(r.deadline.has_value());
    }
  }
  EXPECT_NEAR(chats / 20'000, 0.75, 0.01);
}

WorkloadSpec of_sessions(std::uint64_t count) {
  WorkloadSpec spec = of_count(count);
  spec.arrivals.rate = 2;
  spec.sessions.emplace();
  spec.lengths.cap = 512;
  spec.prompts.kind = PromptSpec::Kind::kLogNormal;
  spec.prompts.mean = 60;
  return spec;
}

TEST(Sessions, EveryTurnRepeatsTheWholeConversationBeforeIt) {
  const WorkloadSpec spec = of_sessions(5'000);
  std::map<std::uint64_t, Request> last;
  MonoTime now;
  std::size_t later_turns = 0;
  for (const Request& r : made(spec)) {
    EXPECT_GE(r.arrival, now);
    now = r.arrival;
    const std::int64_t tokens = (r.prompt + r.output).count();
    EXPECT_EQ(r.prefix.ids.size(), static_cast<std::size_t>((tokens + 63) / 64));
    EXPECT_LE((r.prompt + r.cap).count(), spec.sessions->context);
    const auto before = last.find(r.session);
    if (before != last.end()) {
      ++later_turns;
      const Request& b = before->second;
      EXPECT_GT(r.prompt, b.prompt + b.output) << "history, answer, and a new message";
      EXPECT_GE(to_seconds(r.arrival - b.arrival),
                static_cast<double>(b.output.count()) * spec.sessions->token_s - 1e-6);
      EXPECT_TRUE(std::equal(b.prefix.ids.begin(), b.prefix.ids.end(), r.prefix.ids.begin()))
          << "the answer too is what the next turn begins with";
    }
    last[r.session] = r;
  }
  EXPECT_GT(later_turns, 3'000u);
}

TEST(Sessions, HaveTheirMeanNumberOfTurnsAndTimeToThink) {
  WorkloadSpec spec = of_sessions(60'000);
  spec.sessions->context = 1 << 20;
  spec.sessions->turns = 3;
  spec.sessions->think_s = 10;
  spec.sessions->token_s = 0;
  std::map<std::uint64_t, MonoTime> last;
  std::vector<double> thoughts;
  const Requests all = made(spec);
  for (const Request& r : all) {
    const auto [at, is_first] = last.try_emplace(r.session, r.arrival);
    if (!is_first) thoughts.push_back(to_seconds(r.arrival - at->second));
    at->second = r.arrival;
  }
  EXPECT_NEAR(60'000.0 / static_cast<double>(last.size()), 3, 0.06);
  EXPECT_NEAR(moments(thoughts).mean, 10, 0.2);
  EXPECT_NEAR(moments(thoughts).cv(), 1, 0.02);
}

TEST(Sessions, OfOneClassShareTheirSystemPromptAndNothingElse) {
  WorkloadSpec spec = of_sessions(500);
  spec.sessions->system_tokens = 200;  // three whole ids of 64
  spec.classes.resize(2);
  spec.classes[0].tenant = "a";
  spec.classes[1].tenant = "b";
  std::map<std::string, std::vector<std::uint64_t>> system;
  std::map<std::uint64_t, std::uint64_t> owner;
  for (const Request& r : made(spec)) {
    EXPECT_GT(r.prompt.count(), 200);
    const std::vector<std::uint64_t> begin(r.prefix.ids.begin(), r.prefix.ids.begin() + 3);
    EXPECT_EQ(system.try_emplace(r.tenant, begin).first->second, begin);
    for (std::size_t i = 3; i < r.prefix.ids.size(); ++i) {
      EXPECT_EQ(owner.try_emplace(r.prefix.ids[i], r.session).first->second, r.session);
    }
  }
  EXPECT_NE(system.at("a"), system.at("b"));
}

TEST(Workload, SameSeedSameRequestsAndAnotherSeedOthers) {
  const WorkloadSpec spec = of_sessions(300);
  const Requests one = made(spec, 7), two = made(spec, 7), other = made(spec, 8);
  ASSERT_EQ(one.size(), two.size());
  std::size_t differ = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].arrival, two[i].arrival);
    EXPECT_EQ(one[i].prompt, two[i].prompt);
    EXPECT_EQ(one[i].output, two[i].output);
    EXPECT_EQ(one[i].prefix, two[i].prefix);
    differ += one[i].output != other[i].output ? 1 : 0;
  }
  EXPECT_GT(differ, 200u);
}

TEST(Workload, AnotherRateLeavesLengthsAndPromptsAsTheyAre) {
  WorkloadSpec spec = of_count(200);
  spec.prompts.kind = PromptSpec::Kind::kLogNormal;
  const Requests slow = made(spec);
  spec.arrivals.kind = ArrivalSpec::Kind::kGamma;
  spec.arrivals.rate = 90;
  const Requests fast = made(spec);
  for (std::size_t i = 0; i < slow.size(); ++i) {
    EXPECT_EQ(slow[i].output, fast[i].output);
    EXPECT_EQ(slow[i].prompt, fast[i].prompt);
  }
}

struct Wrong {
  std::string_view field;
  void (*set)(WorkloadSpec&);
};

TEST(Workload, EveryFieldThatIsWrongIsNamed) {
  using Kind = ArrivalSpec::Kind;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Wrong wrongs[] = {
      {"arrivals.duration_s is missing", [](auto& w) { w.arrivals.count.reset(); }},
      {"arrivals.count is 0", [](auto& w) { w.arrivals.count = 0; }},
      {"arrivals.rate is -1", [](auto& w) { w.arrivals.rate = -1; }},
      {"arrivals.rate is nan", [](auto& w) { w.arrivals.rate = kNan; }},
      {"arrivals.duration_s is inf",
       [](auto& w) { w.arrivals.duration_s = std::numeric_limits<double>::infinity(); }},
      {"arrivals.cv is 0",
       [](auto& w) {
         w.arrivals.kind = Kind::kGamma;
         w.arrivals.cv = 0;
       }},
      {"arrivals.high is -2",
       [](auto& w) {
         w.arrivals.kind = Kind::kMarkov;
         w.arrivals.high = -2;
       }},
      {"arrivals.low_sojourn_s is 0",
       [](auto& w) {
         w.arrivals.kind = Kind::kMarkov;
         w.arrivals.low_sojourn_s = 0;
       }},
      {"arrivals.high_sojourn_s is 0",
       [](auto& w) {
         w.arrivals.kind = Kind::kMarkov;
         w.arrivals.high_sojourn_s = 0;
       }},
      {"arrivals.amplitude is 1.5",
       [](auto& w) {
         w.arrivals.kind = Kind::kSinusoid;
         w.arrivals.amplitude = 1.5;
       }},
      {"arrivals.period_s is 0",
       [](auto& w) {
         w.arrivals.kind = Kind::kSinusoid;
         w.arrivals.period_s = 0;
       }},
      {"arrivals.spike_s is 60",
       [](auto& w) {
         w.arrivals.kind = Kind::kSpikes;
         w.arrivals.spike_s = 60;
       }},
      {"arrivals.rate is 1e-06",
       [](auto& w) {
         w.arrivals.kind = Kind::kSpikes;
         w.arrivals.rate = 1e-6;
       }},
      {"arrivals.count is missing",
       [](auto& w) {
         w.arrivals.kind = Kind::kAtOnce;
         w.arrivals.count.reset();
         w.arrivals.duration_s = 1;
       }},
      {"lengths.mu_mean is nan", [](auto& w) { w.lengths.mu_mean = kNan; }},
      {"lengths.mu_sd is -1", [](auto& w) { w.lengths.mu_sd = -1; }},
      {"lengths.sigma_median is 0", [](auto& w) { w.lengths.sigma_median = 0; }},
      {"lengths.sigma_spread is 11", [](auto& w) { w.lengths.sigma_spread = 11; }},
      {"lengths.correlation is 1.1", [](auto& w) { w.lengths.correlation = 1.1; }},
      {"lengths: nu: 0 is out of range", [](auto& w) { w.lengths.nu = 0; }},
      {"lengths.least is 0", [](auto& w) { w.lengths.least = 0; }},
      {"lengths.least is 1", [](auto& w) { w.lengths.cap = 0; }},
      {"lengths.mean is 1;",
       [](auto& w) {
         w.lengths.kind = LengthSpec::Kind::kExponential;
         w.lengths.mean = 1;
       }},
      {"prompts.mean is 0", [](auto& w) { w.prompts.mean = 0; }},
      {"prompts.most is 9223372036854775807", [](auto& w) { w.prompts.most = INT64_MAX; }},
      {"classes[0].share is 0",
       [](auto& w) {
         w.classes.resize(1);
         w.classes[0].share = 0;
       }},
      {"classes[1].prompts.mean is nan",
       [](auto& w) {
         w.classes.resize(2);
         w.classes[1].prompts.emplace().mean = kNan;
       }},
      {"sessions.turns is 0", [](auto& w) { w.sessions.emplace().turns = 0; }},
      {"sessions.think_s is -1", [](auto& w) { w.sessions.emplace().think_s = -1; }},
      {"sessions.tokens_per_id is 0", [](auto& w) { w.sessions.emplace().tokens_per_id = 0; }},
      {"sessions.context is 67108864",
       [](auto& w) {
         w.sessions.emplace().context = 1 << 26;
         w.sessions->tokens_per_id = 16;
       }},
      {"sessions.system_tokens is 40000",
       [](auto& w) { w.sessions.emplace().system_tokens = 40'000; }},
      {"sessions.think_s is 10000",
       [](auto& w) {
         w.sessions.emplace().think_s = 10'000;
         w.arrivals.rate = 1'000;
       }},
      {"sessions are given with arrivals that all come at once",
       [](auto& w) {
         w.sessions.emplace();
         w.arrivals.kind = Kind::kAtOnce;
       }},
      {"trace.paths is missing", [](auto& w) { w.trace.emplace(); }},
  };
  for (const Wrong& wrong : wrongs) {
    WorkloadSpec spec = of_count(10);
    wrong.set(spec);
    const auto workload = make_workload(spec, Rng(1));
    ASSERT_FALSE(workload.has_value()) << wrong.field;
    EXPECT_EQ(workload.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(workload.error().message.starts_with(wrong.field)) << workload.error().message;
  }
}

TEST(Workload, ThatReachesBeyondSimulatedTimeSaysSo) {
  WorkloadSpec spec = of_count(1'000'000);
  spec.arrivals.rate = 1e-6;
  const auto all = requests_of(spec);
  ASSERT_FALSE(all.has_value());
  EXPECT_TRUE(all.error().message.starts_with("requests come after 9e9 s")) << all.error().message;
}

}  // namespace
}  // namespace tailrace::simulate
