#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "support/temp_folder.h"
#include "tailrace/simulate/workload.h"

namespace tailrace::simulate {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> shared_file(const std::string& name) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path path =
      fs::path(shared ? shared : TAILRACE_SOURCE_DIR "/../shared") / "data" / name;
  if (!fs::exists(path)) return std::nullopt;
  return path.string();
}

Result<std::vector<Request>> requests_of(const TraceSpec& trace, std::uint64_t seed = 1) {
  WorkloadSpec spec;
  spec.trace = trace;
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

std::vector<double> arrivals_of(const std::vector<Request>& requests) {
  std::vector<double> all;
  for (const Request& r : requests) all.push_back(to_seconds(r.arrival));
  return all;
}

TraceSpec trace_of(const TempFile& file) {
  TraceSpec spec;
  spec.paths = {file.path()};
  return spec;
}

constexpr std::string_view kThreeRows = "t_s,input_tokens,output_tokens\n0,10,1\n1,20,2\n4,30,3\n";

TEST(TraceWorkload, PassesFollowOneAnotherAtTheMeanGap) {
  const TempFile file(kThreeRows);
  TraceSpec spec = trace_of(file);
  spec.repeat = 3;
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(arrivals_of(*all), (std::vector<double>{0, 1, 4, 6, 7, 10, 12, 13, 16}));
  for (std::size_t i = 0; i < all->size(); ++i) {
    EXPECT_EQ((*all)[i].id, i);
    EXPECT_EQ((*all)[i].output.count(), static_cast<std::int64_t>(i % 3) + 1);
    EXPECT_EQ((*all)[i].cap.count(), 131'072) << "no row names a cap: it may not tell the length";
    EXPECT_FALSE((*all)[i].cap_is_own);
  }
}

TEST(TraceWorkload, AWindowIsCutAndSpedUp) {
  const TempFile file("t_s,input_tokens,output_tokens\n0,1,1\n10,2,2\n14,3,3\n20,4,4\n");
  TraceSpec spec = trace_of(file);
  spec.from_s = 10;
  spec.until_s = 20;
  spec.speed = 2;
  spec.repeat = 2;
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(arrivals_of(*all), (std::vector<double>{0, 2, 4, 6}));
  EXPECT_EQ((*all)[1].prompt.count(), 3);
}

TEST(TraceWorkload, AWindowWithoutRequestsIsRefused) {
  const TempFile file(kThreeRows);
  TraceSpec spec = trace_of(file);
  spec.from_s = 2;
  spec.until_s = 3;
  const auto all = requests_of(spec);
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(all.error().message,
            "trace: no request came between from_s = 2 and until_s = 3; widen the window");
}

TEST(TraceWorkload, ASampleKeepsTheShareAndTheTimes) {
  std::string text = "t_s,input_tokens,output_tokens\n";
  for (int i = 0; i < 4'000; ++i) text += std::to_string(i) + ",10,5\n";
  const TempFile file(text);
  TraceSpec spec = trace_of(file);
  spec.sample = 0.25;
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value());
  EXPECT_NEAR(static_cast<double>(all->size()), 1'000, 90);
  for (const double at : arrivals_of(*all)) EXPECT_NEAR(at, std::round(at), 1e-9);
  EXPECT_EQ(arrivals_of(*requests_of(spec)), arrivals_of(*all)) << "same seed";
  EXPECT_NE(arrivals_of(*requests_of(spec, 2)), arrivals_of(*all));
}

TEST(TraceWorkload, FilesAreMergedByTimeAndKeepTheirPrefixesApart) {
  const TempFile one(R"({"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0,1]}
{"timestamp":4000,"input_length":700,"output_length":6,"hash_ids":[0,2]})");
  const TempFile own(
      R"({"arrival_s":1,"prompt_tokens":9,"output_tokens":3,"prefix_ids":[0],"tokens_per_id":16,"tenant":"t","max_tokens":2})");
  TraceSpec spec = trace_of(one);
  spec.paths.push_back(own.path());
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  ASSERT_EQ(arrivals_of(*all), (std::vector<double>{0, 1, 4}));
  EXPECT_EQ((*all)[1].tenant, "t");
  EXPECT_EQ((*all)[1].output.count(), 2) << "cut at its own cap";
  EXPECT_EQ((*all)[1].prefix.tokens_per_id, 16);
  EXPECT_NE((*all)[1].prefix.ids[0], 0u) << "the other file's 0 means other tokens";
  EXPECT_EQ((*all)[2].tenant, "");
  EXPECT_EQ((*all)[2].cap.count(), 131'072);
}

TEST(TraceWorkload, FilesWithDatesShareOneCalendar) {
  const TempFile late("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:01:00+00:00,20,2\n");
  const TempFile early(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:30.5,10,1\n"
      "2024-05-10 02:01:30+02:00,30,3\n");
  TraceSpec spec = trace_of(late);
  spec.paths.push_back(early.path());
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  std::vector<double> rounded;
  for (const double at : arrivals_of(*all)) rounded.push_back(std::round(at * 10) / 10);
  EXPECT_EQ(rounded, (std::vector<double>{0, 29.5, 59.5}));
}

TEST(TraceWorkload, RowsThatNameNoCapTakeTheOneGiven) {
  const TempFile file(kThreeRows);
  TraceSpec spec = trace_of(file);
  spec.cap = 2;
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value());
  for (const Request& r : *all) EXPECT_EQ(r.cap.count(), 2);
  EXPECT_EQ((*all)[2].output.count(), 2);
}

TEST(TraceWorkload, DrawnLengthsComeWithTheirLawAtRecordedTimes) {
  const TempFile file(kThreeRows);
  WorkloadSpec spec;
  spec.trace = trace_of(file);
  spec.trace->draw_lengths = true;
  spec.lengths.cap = 99;
  auto workload = make_workload(spec, Rng(1));
  ASSERT_TRUE(workload.has_value());
  Request r;
  while (*(*workload)->next(r)) {
    ASSERT_TRUE(r.truth.has_value());
    EXPECT_EQ(r.cap.count(), 99);
    EXPECT_EQ(r.prompt.count() % 10, 0);
  }
  EXPECT_EQ(to_seconds(r.arrival), 4);
}

TEST(TraceWorkload, EndsAfterTheCountOrTheDurationAsked) {
  const TempFile file(kThreeRows);
  WorkloadSpec spec;
  spec.trace = trace_of(file);
  spec.trace->repeat = 1'000'000;
  spec.arrivals.duration_s = 12;
  auto workload = make_workload(spec, Rng(1));
  Request r;
  std::size_t n = 0;
  while (*(*workload)->next(r)) ++n;
  EXPECT_EQ(n, 6u);
  spec.arrivals.count = 4;
  workload = make_workload(spec, Rng(1));
  for (n = 0; *(*workload)->next(r);) ++n;
  EXPECT_EQ(n, 4u);
}

TEST(TraceWorkload, WrongFieldsAreNamed) {
  const TempFile file(kThreeRows);
  const auto error = [&](void (*set)(WorkloadSpec&)) {
    WorkloadSpec spec;
    spec.trace = trace_of(file);
    set(spec);
    const auto workload = make_workload(spec, Rng(1));
    return workload ? std::string("made") : workload.error().message;
  };
  using testing::StartsWith;
  EXPECT_THAT(error([](auto& w) { w.trace->speed = 0; }), StartsWith("trace.speed is 0;"));
  EXPECT_THAT(error([](auto& w) { w.trace->repeat = 0; }), StartsWith("trace.repeat is 0;"));
  EXPECT_THAT(error([](auto& w) { w.trace->sample = 1.5; }), StartsWith("trace.sample is 1.5;"));
  EXPECT_THAT(error([](auto& w) { w.trace->from_s = -1; }), StartsWith("trace.from_s is -1;"));
  EXPECT_THAT(error([](auto& w) { w.trace->until_s = 0; }), StartsWith("trace.until_s is 0;"));
  EXPECT_THAT(error([](auto& w) { w.trace->cap = -1; }), StartsWith("trace.cap is -1;"));
  EXPECT_THAT(error([](auto& w) { w.arrivals.count = 0; }), StartsWith("arrivals.count is 0;"));
  EXPECT_THAT(error([](auto& w) { w.sessions.emplace(); }), StartsWith("sessions are given"));
  EXPECT_THAT(error([](auto& w) { w.classes.resize(1); }), StartsWith("classes are given"));
  EXPECT_THAT(error([](auto& w) {
                w.trace->paths = {"-"};
                w.trace->repeat = 2;
              }),
              StartsWith("trace.repeat is 2;"));
  EXPECT_THAT(error([](auto& w) { w.trace->paths = {"/no/such/file"}; }),
              StartsWith("/no/such/file: cannot open"));
}

TEST(TraceWorkload, AzureConversationsComeWholeAndTwice) {
  const auto path = shared_file("azure_llm_2023/conv.csv.gz");
  if (!path) GTEST_SKIP() << "no recorded traces; set TAILRACE_SHARED";
  TraceSpec spec;
  spec.paths = {*path};
  spec.repeat = 2;
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(all->size(), 2 * 12'910u);
}

TEST(TraceWorkload, MooncakePrefixesAreFreshInEveryPassUnlessAskedOtherwise) {
  const TempFile file(R"({"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0,1]}
{"timestamp":27,"input_length":700,"output_length":6,"hash_ids":[0,2]})");
  TraceSpec spec = trace_of(file);
  spec.repeat = 2;
  const auto fresh = requests_of(spec);
  ASSERT_TRUE(fresh.has_value()) << fresh.error().message;
  ASSERT_EQ(fresh->size(), 4u);
  EXPECT_EQ((*fresh)[0].prefix.ids, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ((*fresh)[2].prefix.ids[0], (*fresh)[3].prefix.ids[0]) << "shared within the pass";
  EXPECT_NE((*fresh)[0].prefix.ids[0], (*fresh)[2].prefix.ids[0]);
  spec.fresh_prefixes = false;
  const auto same = requests_of(spec);
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ((*same)[2].prefix, (*same)[0].prefix);
}

TEST(TraceWorkload, CountsRowsWithoutAnAnswerInEveryPass) {
  const TempFile file("t_s,input_tokens,output_tokens\n0,5,0\n1,5,6\n2,5,0\n3,5,6\n");
  WorkloadSpec spec;
  spec.trace.emplace();
  spec.trace->paths = {file.path()};
  spec.trace->repeat = 3;
  auto workload = make_workload(spec, Rng(1));
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  Request request;
  int requests = 0;
  while (*(*workload)->next(request)) ++requests;
  EXPECT_EQ(requests, 6);
  EXPECT_EQ((*workload)->dropped(), 6u);
}

}  // namespace
}  // namespace tailrace::simulate
