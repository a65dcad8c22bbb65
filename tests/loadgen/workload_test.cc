#include "tailrace/loadgen/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace tailrace::loadgen {
namespace {

TEST(HeavyTail, IsReproducibleAndALongerOneStartsWithTheShorter) {
  const auto few = synthetic_requests("heavy-tail", 10, 3).value();
  const auto many = synthetic_requests("heavy-tail", 50, 3).value();
  const auto other = synthetic_requests("heavy-tail", 10, 4).value();
  for (std::size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(to_json_line(few[i]), to_json_line(many[i]));
    EXPECT_NE(to_json_line(few[i]), to_json_line(other[i]));
  }
}

TEST(HeavyTail, FollowsItsLaw) {
  const auto requests = synthetic_requests("heavy-tail", 2000, 1).value();
  double mu = 0;
  std::vector<double> sigmas;
  std::size_t longest = 0;
  for (const LoadRequest& request : requests) {
    mu += request.law->mu / 2000;
    sigmas.push_back(request.law->sigma);
    ASSERT_GE(request.output_tokens.value(), 1);
    ASSERT_LE(request.output_tokens.value(), 2048);
    if (*request.output_tokens == 2048) ++longest;
  }
  std::nth_element(sigmas.begin(), sigmas.begin() + 1000, sigmas.end());
  EXPECT_NEAR(mu, 4.6, 0.08);
  EXPECT_NEAR(sigmas[1000], 0.75, 0.05);
  EXPECT_GT(longest, 5u);
  EXPECT_LT(longest, 100u);
}

TEST(HeavyTail, ParametersAreChecked) {
  EXPECT_EQ(synthetic_requests("heavy-tail:cap=10", 5, 1)->front().max_tokens, 10);
  for (const char* spec : {"light-tail", "heavy-tail:mean=3", "heavy-tail:cap=0", "heavy-tail:mu",
                           "heavy-tail:sigma=0", "heavy-tail:mu=nan"}) {
    EXPECT_FALSE(synthetic_requests(spec, 5, 1)) << spec;
  }
}

TEST(RequestFile, ReadsBackWhatItWrites) {
  const auto requests =
      parse_requests(R"({"id":"a","prompt":"say \"hi\"","max_tokens":5,"output_tokens":3,)"
                     R"("law":{"mu":1.5,"sigma":0.5},"arrival_s":2,"fields":{"temperature":0}})"
                     "\n\n"
                     R"({"messages":[{"role":"user","content":"x"}]})"
                     "\n");
  ASSERT_TRUE(requests) << requests.error().message;
  ASSERT_EQ(requests->size(), 2u);
  EXPECT_EQ(requests->at(0).messages_json, R"([{"role":"user","content":"say \"hi\""}])");
  EXPECT_EQ(requests->at(0).law->nu, 3.5);
  EXPECT_EQ(requests->at(1).id, "line3");
  const auto again = parse_requests(to_json_line(requests->at(0)));
  EXPECT_EQ(to_json_line(again->at(0)), to_json_line(requests->at(0)));
}

TEST(RequestFile, NamesTheLineAndTheField) {
  for (const auto& [line, says] : {std::pair{R"({"id":"a"})", "prompt or messages"},
                                   {R"({"prompt":"a","max_tokens":0})", "max_tokens"},
                                   {R"({"prompt":"a","law":{"mu":1}})", "law"},
                                   {R"({"prompt":"a","law":{"mu":1,"sigma":0}})", "law.sigma"},
                                   {R"({"prompt":"a","temperature":0})", "temperature"},
                                   {"nonsense", "not a JSON object"}}) {
    const auto requests = parse_requests("{\"prompt\":\"ok\"}\n" + std::string(line));
    ASSERT_FALSE(requests) << line;
    EXPECT_NE(requests.error().message.find(says), std::string::npos) << requests.error().message;
    EXPECT_NE(requests.error().message.find("line 2"), std::string::npos);
  }
  EXPECT_FALSE(parse_requests("\n"));
}

TEST(PoissonArrivals, HaveTheirRateAndVariance) {
  const auto arrivals = poisson_arrivals(4, 20'000, std::nullopt, Rng(1));
  ASSERT_EQ(arrivals.size(), 20'000u);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_NEAR(arrivals.back() / 20'000, 0.25, 0.01);
  double square = 0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    square += std::pow(arrivals[i] - arrivals[i - 1] - 0.25, 2);
  }
  EXPECT_NEAR(std::sqrt(square / 20'000), 0.25, 0.01);
  for (const double at : poisson_arrivals(4, std::nullopt, 10.0, Rng(1))) EXPECT_LT(at, 10);
}

TEST(ArrivalTrace, TakesTheNamedColumnOrTheFirst) {
  EXPECT_EQ(parse_arrivals("t_s,tokens\n0.5,7\n2,8\n").value(), (std::vector<double>{0.5, 2}));
  EXPECT_EQ(parse_arrivals("x,arrival_s\r\n9,1\r\n9,1\r\n").value(), (std::vector<double>{1, 1}));
  EXPECT_EQ(parse_arrivals("0\n3").value(), (std::vector<double>{0, 3}));
  for (const char* bad : {"", "t_s\n", "2\n1\n", "-1\n", "abc\n", "nan\n"}) {
    EXPECT_FALSE(parse_arrivals(bad)) << bad;
  }
}

TEST(OwnArrivals, MustAscend) {
  std::vector<LoadRequest> requests(2);
  EXPECT_FALSE(own_arrivals(requests));
  requests[0].arrival_s = 1;
  requests[1].arrival_s = 2;
  EXPECT_EQ(own_arrivals(requests).value(), (std::vector<double>{1, 2}));
  requests[1].arrival_s = 0;
  EXPECT_FALSE(own_arrivals(requests));
}

TEST(LoadRequests, OfATraceOfOurOwnAreReadToo) {
  std::ifstream in(TAILRACE_SOURCE_DIR "/tests/data/traces/own.jsonl");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto requests = parse_requests(text);
  ASSERT_TRUE(requests.has_value()) << requests.error().message;
  ASSERT_EQ(requests->size(), 12u);
  EXPECT_EQ(requests->front().output_tokens, 93);
  EXPECT_EQ(requests->front().max_tokens, 512);
  EXPECT_EQ(own_arrivals(*requests)->at(1), 2.672);
}

}  // namespace
}  // namespace tailrace::loadgen
