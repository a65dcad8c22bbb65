// What a decision says of itself.
#include "tailrace/capacity/explain.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "capacity/support/models.h"

namespace tailrace::capacity {
namespace {

using namespace testing;

ModelAnalysis growing() {
  auto m = model("llama", 25, {variant("h100", 30, 10, 1), variant("a100", 40, 5, 0)});
  m.slo.targets = {.ttft_ms = 500, .itl_ms = 50};
  m.slo.source = SloSource::kExplicit;
  m.slo.reason = "entry llama-prod";
  auto& p = m.variants[0].parameters;
  p.values = queueing::IterationModel{.alpha_ms = 6.5, .beta_ms = 0.022, .gamma_ms = 5e-5};
  p.condition = 31;
  p.identified = true;
  p.rate_low_per_s = 9;
  p.rate_high_per_s = 11;
  queueing::Sizing sizing;
  sizing.reachable = true;
  sizing.limit = queueing::SizingLimit::kItl;
  m.variants[0].sizing = sizing;
  return m;
}

TEST(Explain, TellsInputsParametersSloBindingRulesAndAlternatives) {
  const auto m = growing();
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  const std::string text = explain(m, decisions);
  for (const char* part :
       {"25 requests/s demanded, 10 supplied: 15 required, 0 to spare",
        "TTFT 500 ms and ITL 50 ms, mean (explicit: entry llama-prod)",
        "h100 on A100: 1 to 3 replicas", "10 requests/s per replica", "bound by ",
        "alpha 6.5 ms, beta 0.022 ms, gamma 5e-05 ms, identified, condition 31",
        "9 to 11 requests/s within the SLO (90 %)", "15 requests/s required: 2 more at 10 each",
        "Rejected: 3 replicas of a100: 2 times the cost"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Explain, ADecisionThatHoldsSaysWhatItWaitsFor) {
  auto m = model("llama", 0, {without_capacity("a", 5, 3, Evidence::kUnknown)});
  m.failure = "no usable metrics";
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  const std::string text = explain(m, decisions);
  EXPECT_NE(text.find("stays at 3 replicas"), std::string::npos) << text;
  EXPECT_NE(text.find("Waits for usable metrics."), std::string::npos) << text;
}

TEST(Explain, DemandThatNobodyKnowsIsNullAndNotZero) {
  auto m = model("llama", 0, {without_capacity("a", 5, 3, Evidence::kUnknown)});
  m.failure = "no usable metrics";
  m.demand_per_s = m.supply_per_s = 0;
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  const auto unknown = boost::json::parse(explain_json(m, decisions));
  EXPECT_TRUE(unknown.at("demand_per_s").is_null());
  EXPECT_TRUE(unknown.at("supply_per_s").is_null());
  m.demand_per_s = 2;  // a gateway tells
  const auto told = boost::json::parse(explain_json(m, decisions));
  EXPECT_EQ(told.at("demand_per_s").to_number<double>(), 2);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Explain, WhatHoldsAModelIsSaidOnce) {
  auto m = model("llama", 0,
                 {without_capacity("a", 5, 3, Evidence::kUnknown),
                  without_capacity("b", 5, 2, Evidence::kUnknown)});
  m.variants[0].parameters.reason = "not created: alpha is 9";
  m.variants[0].failure = "no parameters learnt yet: not created: alpha is 9";
  m.variants[1].failure = "no metrics";
  m.failure = "no variant could be analysed: a: " + *m.variants[0].failure + "; b: no metrics";
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  const std::string text = explain(m, decisions);
  EXPECT_EQ(count(text, "alpha is 9"), 1u) << text;
  EXPECT_EQ(count(text, "no metrics"), 1u) << text;
  EXPECT_EQ(count(text, "stays at"), 2u) << text;
}

TEST(Explain, SeveralStepsAreToldInTheirOrderAndOneAsTheReason) {
  const auto m = growing();
  auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(count(explain(m, decisions), "15 requests/s required: 2 more"), 1u);
  decisions[0].apply("max", "3 cut to the maximum 2", 2);
  const std::string text = explain(m, decisions);
  EXPECT_EQ(count(text,
                  "optimizer: 15 requests/s required: 2 more at 10 each (1 to 3).\n"
                  "    max: 3 cut to the maximum 2 (3 to 2)."),
            1u)
      << text;
}

TEST(Explain, NotesAndRolesAreInBothForms) {
  auto m = growing();
  m.variants[0].role = Role::kPrefill;
  m.notes = {"1 of 2 replicas of h100 reported a rate"};
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  EXPECT_EQ(count(explain(m, decisions), "Note: 1 of 2 replicas of h100 reported a rate."), 1u);
  EXPECT_EQ(count(explain(m, decisions), "h100 on A100, prefill: "), 1u);
  const auto document = boost::json::parse(explain_json(m, decisions));
  EXPECT_EQ(document.at("notes").at(0).as_string(), m.notes[0]);
}

TEST(Explain, AnAlternativeThatIsCheaperForALittleIsCalledThat) {
  const auto m = model("m", 11, {variant("big", 50, 100, 0), variant("small", 10, 10, 1)});
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  const auto rejected = alternatives(m, decisions[0]);
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rejected[0].text,
            "1 replica of small: 0.2 times the cost for this little, but 2 times per request/s");
}

TEST(Explain, TheDocumentHasTheSameAndNullForWhatIsUnknown) {
  const auto m = growing();
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  const auto document = boost::json::parse(explain_json(m, decisions));
  EXPECT_EQ(document.at("slo").at("source").as_string(), "explicit");
  EXPECT_EQ(document.at("slo").at("e2e_ms"), nullptr);
  const auto& first = document.at("variants").at(0);
  EXPECT_EQ(first.at("desired").as_int64(), 3);
  EXPECT_EQ(first.at("action").as_string(), "up");
  EXPECT_EQ(first.at("steps").at(0).at("rule").as_string(), "optimizer");
  EXPECT_EQ(first.at("parameters").at("identified").as_bool(), true);
  EXPECT_EQ(first.at("parameters").at("nis"), nullptr);
  EXPECT_DOUBLE_EQ(first.at("rejected").at(0).at("cost_ratio").to_number<double>(), 2);
  EXPECT_EQ(document.at("variants").at(1).at("parameters").at("alpha_ms"), nullptr);
  EXPECT_EQ(document.at("variants").at(1).at("max"), nullptr);
}

TEST(Explain, NamesThatAreNoUtf8StillGiveADocument) {
  auto m = growing();
  m.variants[1].name = "a\xff";
  const auto decisions = optimize({}, {&m, 1}, std::nullopt);
  boost::system::error_code error;
  boost::json::parse(explain_json(m, decisions), error);
  EXPECT_FALSE(error);
}

}  // namespace
}  // namespace tailrace::capacity
