#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "support/temp_folder.h"
#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

std::string made_path(std::string_view name) {
  return std::string(TAILRACE_SOURCE_DIR "/tests/data/traces/servegen_") + std::string(name);
}

WorkloadSpec made_spec() {
  WorkloadSpec spec;
  spec.servegen.emplace();
  spec.servegen->arrivals = made_path("arrival_windows.csv");
  spec.servegen->lengths = made_path("length_windows.csv");
  return spec;
}

Result<std::vector<Request>> requests_of(const WorkloadSpec& spec, std::uint64_t seed = 1) {
  auto workload = make_workload(spec, Rng(seed));
  if (!workload) return fail(workload.error());
  std::vector<Request> all;
  Request request;
  for (;;) {
    auto more = (*workload)->next(request);
    if (!more) return fail(more.error());
    if (!*more) return all;
    all.push_back(request);
  }
}

std::vector<Request> made(const WorkloadSpec& spec, std::uint64_t seed = 1) {
  auto all = requests_of(spec, seed);
  EXPECT_TRUE(all.has_value()) << all.error().message;
  return all ? std::move(*all) : std::vector<Request>{};
}

std::string error_of(const WorkloadSpec& spec) {
  const auto all = requests_of(spec);
  return all ? "made" : all.error().message;
}

TEST(ServeGen, EveryClientSendsTheIntegralOfItsRateHoweverVariedItsGaps) {
  std::map<std::string, double> sent;
  constexpr int kSeeds = 60;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    MonoTime now;
    for (const Request& r : made(made_spec(), seed)) {
      EXPECT_GE(r.arrival, now);
      now = r.arrival;
      sent[r.tenant] += 1.0 / kSeeds;
    }
  }
  EXPECT_NEAR(sent["client 0"], 600 * (2 + 4 + 2 + 4), 0.02 * 7200) << "gamma, cv 2";
  EXPECT_NEAR(sent["client 1"], 600 * (0.5 + 1 + 1), 0.02 * 1500) << "Weibull, a window without";
  EXPECT_NEAR(sent["client 2"], 600 * (0.2 + 0.4 + 0.2 + 0.4), 0.03 * 720) << "Poisson";
  EXPECT_EQ(sent.size(), 3u);
}

TEST(ServeGen, GapsHaveTheVariationOfTheirFamily) {
  const TempFile windows(
      "client,t_s,rate_rps,cv,family,shape,scale_s\n"
      "0,0,200,,G,0.25,1\n1,600,200,,W,0.7,1\n");
  WorkloadSpec spec = made_spec();
  spec.servegen->arrivals = windows.path();
  std::map<std::string, std::vector<double>> arrivals;
  for (const Request& r : made(spec)) arrivals[r.tenant].push_back(to_seconds(r.arrival));
  const auto cv = [](const std::vector<double>& at) {
    double mean = 0, square = 0;
    const auto n = static_cast<double>(at.size() - 1);
    for (std::size_t i = 1; i < at.size(); ++i) {
      mean += (at[i] - at[i - 1]) / n;
      square += (at[i] - at[i - 1]) * (at[i] - at[i - 1]) / n;
    }
    return std::sqrt(square / (mean * mean) - 1);
  };
  EXPECT_NEAR(cv(arrivals.at("client 0")), 2, 0.06);
  const double k = 0.7;
  EXPECT_NEAR(cv(arrivals.at("client 1")),
              std::sqrt(std::tgamma(1 + 2 / k) / std::pow(std::tgamma(1 + 1 / k), 2) - 1), 0.04);
  EXPECT_GE(arrivals.at("client 1").front(), 600);
}

TEST(ServeGen, LengthsFollowTheQuantilesAndStandInForAClientThatHasNone) {
  std::map<std::string, std::vector<std::int64_t>> prompts;
  for (const Request& r : made(made_spec())) {
    prompts[r.tenant].push_back(r.prompt.count());
    EXPECT_EQ(r.cap.count(), 131'072) << "a limit would tell the length";
    EXPECT_LE(r.prompt.count(), r.tenant == "client 1" ? 3200 : 1600);
  }
  const auto share_below = [](const std::vector<std::int64_t>& all, std::int64_t tokens) {
    double below = 0;
    for (const std::int64_t t : all) below += t <= tokens ? 1 : 0;
    return below / static_cast<double>(all.size());
  };
  EXPECT_NEAR(share_below(prompts["client 0"], 50), 0.10, 0.02);
  EXPECT_NEAR(share_below(prompts["client 0"], 200), 0.50, 0.03);
  EXPECT_NEAR(share_below(prompts["client 0"], 600), 0.90, 0.02);
  EXPECT_NEAR(share_below(prompts["client 1"], 400), 0.50, 0.05);
  EXPECT_NEAR(share_below(prompts["client 2"], 200), 0.50, 0.06) << "client 0's stand in";
}

TEST(ServeGen, AHistogramSpeaksWhereItIsNearerInTime) {
  WorkloadSpec spec = made_spec();
  spec.servegen->histograms = made_path("top_client_pmf.jsonl");
  std::size_t before = 0, after = 0;
  for (const Request& r : made(spec)) {
    if (r.tenant != "client 0") continue;
    // Bin 60 is 2^(59.5/12) to 2^(60.5/12): 31 to 33 tokens. The record's time is 1800 s.
    const bool of_bin = r.output.count() >= 31 && r.output.count() <= 33;
    if (to_seconds(r.arrival) > 900) {
      EXPECT_TRUE(of_bin) << r.output.count();
      ++after;
    } else {
      before += of_bin ? 0 : 1;
    }
  }
  EXPECT_GT(before, 1'000u);
  EXPECT_GT(after, 2'000u);
}

TEST(ServeGen, OnlyTheTimeAskedForIsDrawnAndItsRatesAreScaled) {
  WorkloadSpec spec = made_spec();
  spec.servegen->from_s = 600;
  spec.servegen->until_s = 900;
  spec.servegen->rate_scale = 10;
  spec.servegen->cap = 64;
  spec.arrivals.count = 1'000'000;
  const auto all = made(spec);
  EXPECT_NEAR(static_cast<double>(all.size()), 300 * 10 * (4 + 1 + 0.4), 900);
  EXPECT_LT(to_seconds(all.back().arrival), 300);
  for (const Request& r : all) {
    EXPECT_EQ(r.cap.count(), 64);
    EXPECT_LE(r.output.count(), 64);
  }
}

TEST(ServeGen, WrongTablesAndFieldsAreNamed) {
  const auto with = [](auto set) {
    WorkloadSpec spec = made_spec();
    set(spec);
    return error_of(spec);
  };
  const auto with_windows = [&](std::string_view rows) {
    const TempFile file("client,t_s,rate_rps,cv,family,shape,scale_s\n" + std::string(rows));
    return with([&](auto& w) { w.servegen->arrivals = file.path(); });
  };
  EXPECT_THAT(with([](auto& w) { w.servegen->arrivals.clear(); }),
              StartsWith("servegen.arrivals is missing"));
  EXPECT_THAT(with([](auto& w) { w.servegen->rate_scale = 0; }),
              StartsWith("servegen.rate_scale is 0;"));
  EXPECT_THAT(with([](auto& w) { w.servegen->until_s = 0; }), StartsWith("servegen.until_s is 0;"));
  EXPECT_THAT(with([](auto& w) { w.servegen->from_s = 5'000; }),
              HasSubstr("no client sends between 5000"));
  EXPECT_THAT(with([](auto& w) { w.sessions.emplace(); }), StartsWith("servegen is given beside"));
  EXPECT_THAT(with([](auto& w) { w.servegen->lengths = w.servegen->arrivals; }),
              HasSubstr("line 1: there is no column in_p10"));
  EXPECT_THAT(with_windows("0,0,nan,,G,1,1\n"), HasSubstr("line 2: rate_rps is \"nan\""));
  EXPECT_THAT(with_windows("0,0,1,,X,1,1\n"), HasSubstr("line 2: family is \"X\""));
  EXPECT_THAT(with_windows("0,0,1,,G,0,1\n"), HasSubstr("line 2: shape is \"0\""));
  EXPECT_THAT(with_windows("-1,0,1,,G,1,1\n"), HasSubstr("line 2: client is \"-1\""));
  EXPECT_THAT(with_windows("0,600,1,,G,1,1\n0,0,1,,G,1,1\n"),
              HasSubstr("line 3: client 0 has a window at 0 s after one at 600 s"));
  const TempFile bins(R"({"client":0,"t_s":0,"output_tokens":{"481":1}})");
  EXPECT_THAT(with([&](auto& w) { w.servegen->histograms = bins.path(); }),
              HasSubstr("line 1: output_tokens[\"481\"] is \"1\""));
  const TempFile empty_bins(R"({"client":0,"t_s":0,"output_tokens":{}})");
  EXPECT_THAT(with([&](auto& w) { w.servegen->histograms = empty_bins.path(); }),
              HasSubstr("output_tokens holds no share above 0"));
}

TEST(ServeGen, RecordedTablesGiveTheirRateAndLengths) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path folder =
      fs::path(shared ? shared : TAILRACE_SOURCE_DIR "/../shared") / "data" / "servegen";
  if (!fs::exists(folder)) GTEST_SKIP() << "no recorded traces; set TAILRACE_SHARED";
  // Sums of rate_rps · 600 s over the windows of two hours.
  const std::pair<std::string, double> recorded[] = {
      {"m-large", 490'086}, {"mm-image", 44'722}, {"deepseek-r1", 66'989}};
  for (const auto& [name, requests] : recorded) {
    WorkloadSpec spec;
    spec.servegen.emplace();
    spec.servegen->arrivals = (folder / (name + "_arrival_windows.csv.gz")).string();
    spec.servegen->lengths = (folder / (name + "_length_windows.csv.gz")).string();
    spec.servegen->histograms = (folder / (name + "_top_client_pmf.jsonl.gz")).string();
    spec.servegen->from_s = 36'000;
    spec.servegen->until_s = 43'200;
    spec.servegen->rate_scale = 0.1;
    const auto all = made(spec);
    EXPECT_NEAR(static_cast<double>(all.size()), 0.1 * requests, 0.01 * requests) << name;
    for (const Request& r : all) EXPECT_TRUE(r.prompt.count() >= 1 && r.output.count() >= 1);
  }
}

}  // namespace
}  // namespace tailrace::simulate
