// One tenant's nonsense leaves the others' intervals what they promise.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "predict/support/generated_prompts.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {
namespace {

using testing::generate_requests;
using testing::GeneratedRequest;

constexpr std::int64_t kCap = 4096;

struct Poisoned {
  RequestFeatures features;
  Observation observation;
};

/// What the hostile tenant sends and how it ends, from a request like everybody's.
struct Poison {
  const char* name;
  std::function<void(Poisoned&, Rng&)> make;
};

/// Share of the honest tenants' answers inside their central 90 % intervals, with the place inside
/// a whole token drawn; the second half of the traffic, of which half is the hostile tenant's.
double honest_coverage(const Poison* poison, std::uint64_t seed) {
  auto predictor = make_online_predictor({.table_bits = 16});
  Rng rng(seed);
  const auto honest = generate_requests(rng.fork("honest"), 3000);
  const auto copied = generate_requests(rng.fork("hostile"), 3000);
  double inside = 0;
  double asked = 0;
  for (std::size_t i = 0; i < honest.size(); ++i) {
    RequestFeatures features = honest[i].features;
    features.tenant = "honest " + std::to_string(rng.below(3));
    const auto law = predictor->predict(std::span(&features, 1)).front().law;
    const auto x = static_cast<double>(std::min(honest[i].length, kCap));
    const bool capped = honest[i].length >= kCap;
    const double above = law.survival(x - 1);
    const double beyond = capped ? 0 : law.survival(x);
    const double u = beyond + rng.uniform() * (above - beyond);
    if (2 * i >= honest.size()) {
      asked += 1;
      inside += std::abs(u - 0.5) < 0.45 ? 1 : 0;
    }
    predictor->observe(features, {Tokens(std::llround(x)), capped});
    if (poison == nullptr) continue;
    Poisoned sent{copied[i].features, {Tokens(copied[i].length), false}};
    sent.features.tenant = "hostile";
    poison->make(sent, rng);
    predictor->observe(sent.features, sent.observation);
  }
  return inside / asked;
}

void expect_honest(const Poison* poison) {
  const double coverage = honest_coverage(poison, 1);
  EXPECT_GE(coverage, 0.87) << (poison == nullptr ? "nobody hostile" : poison->name);
  EXPECT_LE(coverage, 0.93) << (poison == nullptr ? "nobody hostile" : poison->name);
}

std::string random_bytes(Rng& rng, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(rng.below(256));
  return bytes;
}

const Poison kPoisons[] = {
    {"LiesThroughAborts",
     [](Poisoned& p, Rng& rng) {
       p.observation = {Tokens(static_cast<std::int64_t>(3000 + rng.below(1000))), true};
     }},
    {"AbortsAtOnce", [](Poisoned& p, Rng&) { p.observation = {Tokens(1), true}; }},
    {"ConstantLengths", [](Poisoned& p, Rng&) { p.observation = {Tokens(777), false}; }},
    {"OneTokenAnswers", [](Poisoned& p, Rng&) { p.observation = {Tokens(1), false}; }},
    {"AllAtTheCap", [](Poisoned& p, Rng&) { p.observation = {Tokens(kCap), true}; }},
    {"EmptyPrompts",
     [](Poisoned& p, Rng& rng) {
       p.features.prompt_head = p.features.prompt_tail = "";
       p.features.prompt_tokens = Tokens(0);
       p.observation = {Tokens(static_cast<std::int64_t>(1 + rng.below(4000))), false};
     }},
    {"MegabytePrompts",
     [](Poisoned& p, Rng&) {
       // What is kept of a prompt of a megabyte.
       p.features.prompt_head = p.features.prompt_tail = std::string(512, 'a');
       p.features.prompt_tokens = Tokens(250'000);
       p.observation = {Tokens(2), false};
     }},
    {"RandomBytes",
     [](Poisoned& p, Rng& rng) {
       p.features.prompt_head = random_bytes(rng, 512);
       p.features.prompt_tail = random_bytes(rng, 512);
       p.features.prompt_fingerprint = rng.next_u64();
       p.observation = {Tokens(static_cast<std::int64_t>(1 + rng.below(kCap))), rng.below(2) == 0};
     }},
};

class PredictorPoison : public ::testing::TestWithParam<Poison> {};

TEST_P(PredictorPoison, LeavesOtherTenantsIntervalsHonest) {
  expect_honest(&GetParam());
}

INSTANTIATE_TEST_SUITE_P(Half, PredictorPoison, ::testing::ValuesIn(kPoisons),
                         [](const auto& which) { return std::string(which.param.name); });

TEST(PredictorPoison, WithoutAnyTheIntervalsAreHonestToo) {
  expect_honest(nullptr);
}

}  // namespace
}  // namespace tailrace::predict
