// What the location of a law learns, and from whom: the group, the words, the prompt itself.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "predict/explain.h"
#include "predict/hierarchical_prior.h"
#include "predict/linear_model.h"
#include "predict/log_t_score.h"
#include "predict/request_text.h"
#include "predict/support/generated_prompts.h"

namespace tailrace::predict {
namespace {

using testing::generate_requests;

class Location {
 public:
  double median(const RequestFeatures& request) {
    extract_features(request, features_);
    return std::exp(
        model.predict(prior.predict(request).mu, features_, stable_hash(request.tenant)).mu);
  }
  void learn(const RequestFeatures& request, double length, double weight = 1,
             bool censored = false) {
    extract_features(request, features_);
    const double y = log_length(length);
    model.learn(prior.predict(request).mu, features_, stable_hash(request.tenant), y, censored,
                weight);
    prior.observe(request, y, censored, weight);
  }

  HierarchicalPrior prior{5, 1};
  LinearModel model{16};

 private:
  FeatureList features_;
};

RequestFeatures asking(std::string prompt, std::string model = "model-a") {
  RequestFeatures request;
  request.model = std::move(model);
  request.route = "chat";
  request.prompt_tokens = Tokens(static_cast<std::int64_t>(prompt.size() / 4));
  request.prompt_fingerprint = stable_hash(prompt);
  request.prompt_head = std::move(prompt);
  request.cap = Tokens(4096);
  return request;
}

/// Other traffic, so that the shared weights mean something.
void warm_up(Location& location, std::size_t count = 500) {
  for (const auto& request : generate_requests(Rng(1), count)) {
    location.learn(request.features, static_cast<double>(request.length));
  }
}

TEST(Location, PromptSeenBeforeIsPredictedFromItsEarlierAnswer) {
  Location location;
  warm_up(location);
  const auto seen = asking("Tell me about tea.");
  const auto unseen = asking("Tell me about jazz.");
  for (int i = 0; i < 5; ++i) {
    location.learn(seen, 1500);
    location.learn(asking("Tell me about bread."), 40);
  }
  EXPECT_GT(location.median(seen), 3 * location.median(unseen));
  EXPECT_NEAR(std::log(location.median(seen)), std::log(1500), 1);
}

TEST(Location, ModelNeverSeenStartsFromItsRelatives) {
  Location location;
  Rng rng(2);
  for (int i = 0; i < 1500; ++i) {
    const bool talkative = i % 2 == 0;
    const char* models[] = {talkative ? "acme/sage-7b" : "acme/quip-7b",
                            talkative ? "acme/sage-13b" : "acme/quip-13b"};
    auto request = generate_requests(Rng(rng.next_u64()), 1).front();
    request.features.model = models[rng.below(2)];
    location.learn(request.features, static_cast<double>(request.length) * (talkative ? 3 : 0.5));
  }
  const double of_talkative = location.median(asking("Tell me more.", "acme/sage-70b"));
  const double of_terse = location.median(asking("Tell me more.", "acme/quip-70b"));
  EXPECT_GT(of_talkative, 1.5 * of_terse);
}

TEST(Location, ModelTakesPromptsInItsOwnMeasure) {
  // The second model's answers grow with the square root of what the first one's do.
  Location location;
  for (const auto& request : generate_requests(Rng(3), 3000)) {
    const auto length = static_cast<double>(request.length);
    location.learn(request.features, length);
    RequestFeatures other = request.features;
    other.model = "model-b";
    location.learn(other, 10 * std::sqrt(length));
  }
  double first = 0;
  double second = 0;
  const auto test = generate_requests(Rng(4), 200);
  for (std::size_t i = 1; i < test.size(); ++i) {
    RequestFeatures a = test[i].features;
    RequestFeatures b = test[i - 1].features;
    first += std::abs(std::log(location.median(a) / location.median(b)));
    a.model = b.model = "model-b";
    second += std::abs(std::log(location.median(a) / location.median(b)));
  }
  EXPECT_NEAR(second / first, 0.5, 0.12);
}

TEST(Location, TenantWhoseAnswersIgnoreItsPromptsDoesNotTeachOthersSo) {
  // Half of the traffic is a tenant's that sends others' prompts and has each answered by a token.
  Location attacked;
  Location quiet;
  for (const auto& request : generate_requests(Rng(6), 2500)) {
    const auto length = static_cast<double>(request.length);
    attacked.learn(request.features, length, 0.9);
    quiet.learn(request.features, length);
    RequestFeatures attack = request.features;
    attack.tenant = "attacker";
    attacked.learn(attack, 1, 0.9);
  }
  double spread = 0;
  double kept = 0;
  const auto test = generate_requests(Rng(7), 200);
  for (std::size_t i = 1; i < test.size(); ++i) {
    const auto& a = test[i].features;
    const auto& b = test[i - 1].features;
    spread += std::abs(std::log(quiet.median(a) / quiet.median(b)));
    kept += std::abs(std::log(attacked.median(a) / attacked.median(b)));
  }
  EXPECT_GT(kept, 0.85 * spread);
}

TEST(Location, EarlierAnswersOfAConversationTellTheNext) {
  Location location;
  Rng rng(5);
  const auto turn = [](double usual) {
    RequestFeatures request = asking("And then?");
    request.prompt_fingerprint = 0;
    request.turns = 5;
    request.earlier_answers = 2;
    request.last_answer = Tokens(std::llround(usual));
    request.mean_log_answer = std::log(usual);
    return request;
  };
  for (int i = 0; i < 600; ++i) {
    const double usual = 20 * std::exp(3 * rng.uniform());
    location.learn(turn(usual), std::max(1.0, usual * std::exp(0.2 * rng.normal())));
  }
  EXPECT_NEAR(std::log(location.median(turn(30))), std::log(30), 0.3);
  EXPECT_NEAR(std::log(location.median(turn(300))), std::log(300), 0.3);
}

TEST(Location, FiftyAnswersTellFactsFromEssays) {
  double apart = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Location location;
    Rng rng(seed);
    const char* facts[] = {"When was tea first printed?", "Who found the moon?",
                           "What is the capital of jazz?"};
    const char* essays[] = {"Write a long essay about tea.", "Compose a story of the moon.",
                            "Write a detailed article on jazz."};
    for (int i = 0; i < 50; ++i) {
      const bool fact = rng.below(2) == 0;
      location.learn(asking((fact ? facts : essays)[rng.below(3)]),
                     (fact ? 15 : 700) * std::exp(0.4 * rng.normal()));
    }
    apart += std::log(location.median(asking("Write an essay about glaciers.")) /
                      location.median(asking("Who drew the glaciers?"))) /
             5;
  }
  EXPECT_GT(apart, 0.5 * std::log(700.0 / 15));
}

TEST(Location, LightObservationsOfATenantMoveOthersLittleAndItselfFully) {
  Location location;
  warm_up(location);
  auto mine = asking("What is the origin of the word for tea? Answer in one word.");
  mine.tenant = "honest";
  auto lie = mine;
  lie.tenant = "liar";
  for (int i = 0; i < 50; ++i) location.learn(mine, 4);
  const double before = location.median(mine);
  for (int i = 0; i < 50; ++i) location.learn(lie, 3000, 1.0 / 16);
  EXPECT_LT(std::abs(std::log(location.median(mine) / before)), 0.7);
  EXPECT_GT(location.median(lie), 5 * location.median(mine));
}

TEST(Location, FloodOfInventedWordsLeavesModelsAndLengthsAlone) {
  Location location;
  Rng rng(6);
  for (int i = 0; i < 400; ++i) location.learn(asking("Go on.", "big"), 900);
  const double before = location.median(asking("Go on.", "big"));
  for (int i = 0; i < 20'000; ++i) {
    auto noise = asking("w" + std::to_string(rng.next_u64()) + " v" + std::to_string(i), "other");
    noise.prompt_fingerprint = rng.next_u64();
    location.learn(noise, 900 * std::exp(rng.normal()));
  }
  EXPECT_LT(std::abs(std::log(location.median(asking("Go on.", "big")) / before)), 0.3);
}

TEST(Location, HostileTextMovesNoMoreThanAnyOther) {
  Location location;
  warm_up(location);
  const auto honest = generate_requests(Rng(7), 50);
  for (const std::string& text :
       {std::string(), std::string(1 << 20, 'x'), std::string(1'000'000, '9'),
        std::string(5000, '\xFF'), std::string(1000, '\0')}) {
    for (const double length : {1.0, 1e9}) {
      for (int i = 0; i < 50; ++i) location.learn(asking(text), length, 1, i % 2 == 0);
      for (const auto& request : honest) {
        const double median = location.median(request.features);
        EXPECT_TRUE(std::isfinite(median));
        EXPECT_GT(median, 1e-3);
        EXPECT_LT(median, 1e6);
      }
    }
  }
}

TEST(Explain, NamesTheWordsThatMakeAnAnswerLong) {
  Location location;
  warm_up(location, 2000);
  const auto found = explain(location.prior, location.model,
                             asking("Write an essay about jazz of about 800 words."), 40);
  ASSERT_FALSE(found.empty());
  const auto shift_of = [&](std::string_view name) {
    for (const auto& influence : found) {
      if (influence.what.find(name) != std::string::npos) return influence.log_shift;
    }
    return 0.0;
  };
  EXPECT_GT(shift_of("asks for 800 'words'"), 0.05);
  EXPECT_GT(shift_of("word 'essay'"), 0.02);
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_GE(std::abs(found[i - 1].log_shift), std::abs(found[i].log_shift));
  }
}

TEST(Explain, NamesNoTenantAndNoSystemPromptWhereTheRequestHasNone) {
  Location location;
  warm_up(location, 2000);
  auto request = asking("Write an essay about jazz of about 800 words.");
  const auto names = [&] {
    std::string all;
    for (const auto& influence : explain(location.prior, location.model, request, 1000)) {
      all += influence.what + "\n";
    }
    return all;
  };
  const std::string without = names();
  EXPECT_NE(without.find("kind of call"), std::string::npos) << without;
  EXPECT_EQ(without.find("tenant"), std::string::npos) << without;
  EXPECT_EQ(without.find("system prompt"), std::string::npos) << without;
  request.tenant = "team-a";
  request.system_fingerprint = 7;
  for (int i = 0; i < 300; ++i) location.learn(request, 2000, 1, false);
  const std::string with = names();
  EXPECT_NE(with.find("tenant 'team-a'"), std::string::npos) << with;
  EXPECT_NE(with.find("system prompt"), std::string::npos) << with;
}

TEST(Explain, GivesNoMoreThanAskedAndNothingBeforeAnythingIsLearned) {
  Location location;
  EXPECT_TRUE(explain(location.prior, location.model, asking("Hello there"), 10).empty());
  warm_up(location);
  EXPECT_EQ(explain(location.prior, location.model, asking("Write an essay about tea."), 3).size(),
            3U);
}

}  // namespace
}  // namespace tailrace::predict
