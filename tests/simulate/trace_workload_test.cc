#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

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

/// A file that lives as long as this.
class MadeFile {
 public:
  explicit MadeFile(std::string_view text) {
    static int made = 0;
    path_ = fs::temp_directory_path() /
            ("tailrace_trace_" + std::to_string(::getpid()) + "_" + std::to_string(made++));
    std::ofstream(path_, std::ios::binary) << text;
  }
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;
  ~MadeFile() { fs::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

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

TraceSpec trace_of(const MadeFile& file) {
  TraceSpec spec;
  spec.paths = {file.path()};
  return spec;
}

constexpr std::string_view kThreeRows = "t_s,input_tokens,output_tokens\n0,10,1\n1,20,2\n4,30,3\n";

TEST(TraceWorkload, PassesFollowOneAnotherAtTheMeanGap) {
  const MadeFile file(kThreeRows);
  TraceSpec spec = trace_of(file);
  spec.repeat = 3;
  const auto all = requests_of(spec);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(arrivals_of(*all), (std::vector<double>{0, 1, 4, 6, 7, 10, 12, 13, 16}));
  for (std::size_t i = 0; i < all->size(); ++i) {
    EXPECT_EQ((*all)[i].id, i);
    EXPECT_EQ((*all)[i].output.count(), static_cast<std::int64_t>(i % 3) + 1);
    EXPECT_EQ((*all)[i].cap, (*all)[i].output) << "no row names a cap";
  }
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
  const MadeFile file(R"({"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0,1]}
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

}  // namespace
}  // namespace tailrace::simulate
