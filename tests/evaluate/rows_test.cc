#include "tailrace/evaluate/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "support/temp_folder.h"
#include "tailrace/predict/prompt.h"

namespace tailrace::evaluate {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A folder of its own for each test, gone afterwards.
class Rows : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    return folder_.write(name, text);
  }
  Result<RowSet> read(const std::string& text) { return read_rows(write("a.jsonl", text), {}); }
  std::string error_of(const std::string& text) {
    const auto set = read(text);
    return set ? "no error" : set.error().message;
  }

  TempFolder folder_;
};

TEST_F(Rows, ReadsAPromptAndItsAnswer) {
  const auto set = read(
      R"({"prompt": "Why is the sky blue?", "length": 120, "model": "m", "tenant": "t", "cap": 512,
         "system": "Be brief.", "temperature": 0.5, "top_p": 0.9})"
      "\n\n");
  // The line above is broken in two for the reader's sake only.
  EXPECT_FALSE(set) << "one object a line";
  const auto row = read(
      "{\"prompt\": \"Why is the sky blue?\", \"length\": 120, \"model\": \"m\", \"tenant\": "
      "\"t\", "
      "\"cap\": 512, \"system\": \"Be brief.\", \"temperature\": 0.5, \"top_p\": 0.9}\n\n");
  ASSERT_TRUE(row) << row.error().message;
  ASSERT_EQ(row->rows.size(), 1);
  EXPECT_EQ(row->name, "a");
  const Row& r = row->rows[0];
  EXPECT_EQ(r.truth.length, Tokens(120));
  EXPECT_FALSE(r.truth.censored);
  EXPECT_EQ(r.features.model, "m");
  EXPECT_EQ(r.features.tenant, "t");
  EXPECT_EQ(r.features.route, "chat");
  EXPECT_EQ(r.features.cap, Tokens(512));
  EXPECT_TRUE(r.features.cap_is_explicit);
  EXPECT_EQ(r.features.prompt_head, "Why is the sky blue?");
  EXPECT_EQ(r.features.system_fingerprint, stable_hash("Be brief."));
  EXPECT_EQ(r.features.temperature, 0.5);
  EXPECT_EQ(r.features.top_p, 0.9);
  EXPECT_EQ(r.features.prompt_tokens, Tokens(9)) << "20 bytes and a message around them";
}

TEST_F(Rows, ReadsAConversation) {
  const auto set = read(
      R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}, )"
      R"({"role": "assistant", "content": "12345678"}, )"
      R"({"role": "user", "content": [{"type": "text", "text": "and then?"}]}], "length": 7})");
  ASSERT_TRUE(set) << set.error().message;
  const auto& f = set->rows.at(0).features;
  EXPECT_EQ(f.prompt_head, "and then?");
  EXPECT_EQ(f.turns, 4);
  EXPECT_EQ(f.earlier_answers, 1);
  EXPECT_EQ(f.last_answer, Tokens(2));
  EXPECT_EQ(f.system_fingerprint, stable_hash("Be brief."));
}

TEST_F(Rows, WhatReachesItsLimitWasCut) {
  const auto set = read(
      "{\"prompt\": \"a\", \"length\": 20, \"cap\": 20}\n"
      "{\"prompt\": \"a\", \"length\": 10, \"cap\": 20, \"censored\": true}\n"
      "{\"prompt\": \"a\", \"length\": 9999}\n");
  ASSERT_TRUE(set) << set.error().message;
  for (const Row& row : set->rows) EXPECT_TRUE(row.truth.censored);
  EXPECT_EQ(set->rows[2].truth.length, Tokens(4096));
  EXPECT_FALSE(set->rows[2].features.cap_is_explicit);
}

TEST_F(Rows, RefusesALengthAboveTheRowsOwnCap) {
  EXPECT_THAT(error_of("{\"prompt\": \"a\", \"length\": 30, \"cap\": 20}\n"),
              AllOf(HasSubstr("line 1"), HasSubstr("length is 30"), HasSubstr("cap of 20")));
}

TEST_F(Rows, LimitsOfCollectionsMayBeInOtherTokensThanTheirLengths) {
  const auto set = read("{\"prompt\": \"a\", \"tokens\": [30], \"cap\": 20}\n");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->rows[0].truth.length, Tokens(20));
  EXPECT_TRUE(set->rows[0].truth.censored);
}

TEST_F(Rows, SendsRowsOfManyLengthsToFit) {
  EXPECT_THAT(error_of("{\"id\": \"a\", \"lengths\": [3, 4]}\n"), HasSubstr("tailrace fit"));
}

TEST_F(Rows, TellsOnceAFileOfMembersThatNothingReads) {
  std::vector<std::string> told;
  ReadOptions options;
  options.warn = [&](const std::string& what) { told.push_back(what); };
  const std::string path = write("a.jsonl",
                                 "{\"prompt\": \"a\", \"length\": 3}\n"
                                 "{\"temprature\": 1, \"length\": 3}\n"
                                 "{\"topp\": 1, \"length\": 3}\n");
  ASSERT_TRUE(read_rows(path, options));
  ASSERT_EQ(told.size(), 1);
  EXPECT_THAT(told[0], AllOf(HasSubstr("line 2"), HasSubstr("\"temprature\" is not read")));
  told.clear();
  // Collections carry members of their own.
  ASSERT_TRUE(
      read_rows(write("b.jsonl", "{\"prompt\": \"a\", \"judge\": 1, \"tokens\": [3]}\n"), options));
  EXPECT_TRUE(told.empty());
}

TEST_F(Rows, ReadsOneRowAModelAndSetsAsApplications) {
  const auto set = read(
      "{\"prompt\": \"a\", \"out\": {\"x\": 5, \"y\": 6}}\n"
      "{\"set\": \"code\", \"prompt\": \"b\", \"out_tokens\": 7}\n"
      "{\"set\": \"play\", \"prompt\": \"b\", \"out_tokens\": 8}\n");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->rows.size(), 4);
  EXPECT_EQ(set->rows[1].features.model, "y");
  EXPECT_EQ(set->rows[1].truth.length, Tokens(6));
  EXPECT_NE(set->rows[2].features.system_fingerprint, set->rows[3].features.system_fingerprint);
}

TEST_F(Rows, RepeatedSamplesAreRowsOfOneGroup) {
  const auto set = read(
      "{\"prompt\": \"a\", \"model\": \"x\", \"tokens\": [5, 6, 7]}\n"
      "{\"prompt_id\": \"no text\", \"model\": \"x\", \"tokens\": [8, 9]}\n");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->rows.size(), 5);
  EXPECT_EQ(set->rows[0].group, set->rows[2].group);
  EXPECT_NE(set->rows[0].group, set->rows[3].group);
  EXPECT_EQ(set->rows[3].features.prompt_head, "");
  auto rows = set->rows;
  keep_per_group(rows, 2);
  EXPECT_EQ(rows.size(), 4);
}

TEST_F(Rows, JoinsAFolderOfPromptsAndSamplingReports) {
  write("prompts.jsonl", "{\"id\": 7, \"prompt\": \"hello\", \"prompt_tokens\": 3}\n");
  write("output_lengths.jsonl",
        "{\"model\": \"x\", \"params\": {\"max_new_tokens\": 128, \"temperature\": 0.7, "
        "\"do_sample\": "
        "true}, \"out_tokens\": {\"7\": [50, 128], \"8\": [1]}}\n"
        "{\"model\": \"x\", \"params\": {\"max_new_tokens\": 128, \"temperature\": 0.7, "
        "\"do_sample\": "
        "false}, \"out_tokens\": {\"7\": [60]}}\n");
  const auto set = read_rows(folder_.path().string(), {});
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->rows.size(), 3) << "the prompt 8 is not there";
  EXPECT_EQ(set->rows[0].features.prompt_head, "hello");
  EXPECT_EQ(set->rows[0].features.prompt_tokens, Tokens(3));
  EXPECT_EQ(set->rows[0].features.temperature, 0.7);
  EXPECT_TRUE(set->rows[1].truth.censored);
  EXPECT_EQ(set->rows[2].features.temperature, 0) << "greedy";
}

TEST_F(Rows, JoinsAFolderOfRubricsAndSamples) {
  write("prompts.jsonl", "{\"task\": \"t\", \"rubric_id\": \"3\", \"prompt\": \"hello\"}\n");
  write("samples.jsonl",
        "{\"model\": \"x\", \"task\": \"t\", \"prompt_id\": \"run:3\", \"temperature\": 0.0, "
        "\"tokens\": [5, 6]}\n");
  const auto set = read_rows(folder_.path().string(), {});
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->rows.size(), 2);
  EXPECT_EQ(set->rows[0].features.prompt_head, "hello");
  EXPECT_EQ(set->rows[0].features.model, "x");
}

TEST_F(Rows, ReadsTablesOfLengthsWithoutText) {
  write("a.csv", "split,alpaca_id,L_reference,L_t0.0,L_t0.7\ntrain,5,160,115,512\n");
  write("b.csv", "id,prompt_tokens,f_short,x,y\n2,34,0,636,\n3,10,0,20,30\n");
  const auto set = read_rows(folder_.path().string(), {});
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->rows.size(), 5);
  EXPECT_EQ(set->rows[1].features.temperature, 0.7);
  EXPECT_TRUE(set->rows[1].truth.censored);
  EXPECT_EQ(set->rows[0].group, set->rows[1].group);
  EXPECT_EQ(set->rows[2].features.model, "x");
  EXPECT_EQ(set->rows[2].features.prompt_tokens, Tokens(34));
}

TEST_F(Rows, ErrorsNameFileLineFieldAndRemedy) {
  EXPECT_THAT(error_of("{\"prompt\": \"a\", \"length\": 5}\n{\"prompt\": \"a\", \"length\": -1}\n"),
              AllOf(HasSubstr("a.jsonl"), HasSubstr("line 2"), HasSubstr("length is \"-1\""),
                    HasSubstr("give a whole number")));
  EXPECT_THAT(error_of("{\"prompt\": \"a\"}\n"), HasSubstr("length is missing"));
  EXPECT_THAT(error_of("{\"prompt\": 5, \"length\": 5}\n"), HasSubstr("prompt is \"5\""));
  EXPECT_THAT(error_of("{\"prompt\": \"a\", \"length\": 5, \"cap\": 0}\n"), HasSubstr("cap is"));
  EXPECT_THAT(error_of("{\"prompt\": \"a\", \"length\": 5, \"top_p\": 2}\n"),
              HasSubstr("top_p is"));
  EXPECT_THAT(error_of("{\"prompt\": \"a\", \"messages\": [], \"length\": 5}\n"),
              HasSubstr("both given"));
  EXPECT_THAT(error_of("{\"messages\": [5], \"length\": 5}\n"), HasSubstr("messages"));
  EXPECT_THAT(error_of("{\"prompt\": \"a\", \"out\": {\"x\": \"y\"}}\n"), HasSubstr("out.x"));
  EXPECT_THAT(error_of("[1]\n"), HasSubstr("line 1"));
  EXPECT_THAT(error_of(""), HasSubstr("holds no rows"));
  EXPECT_THAT(read_rows(folder_.file("gone"), {}).error().message, HasSubstr("no such file"));
  write("c.csv", "a,b\n1,2\n");
  EXPECT_THAT(read_rows(folder_.file("c.csv"), {}).error().message, HasSubstr("no known table"));
}

TEST_F(Rows, AShuffleIsAPermutationSetByItsSeed) {
  std::string text;
  for (int i = 1; i <= 100; ++i) {
    text += "{\"prompt\": \"a\", \"length\": " + std::to_string(i) + "}\n";
  }
  const auto set = read(text);
  ASSERT_TRUE(set);
  const auto order = [&](std::uint64_t seed) {
    auto rows = set->rows;
    shuffle(rows, Rng(seed));
    std::vector<std::int64_t> lengths;
    for (const Row& row : rows) lengths.push_back(row.truth.length.count());
    return lengths;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  const auto first = order(1);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 100);
}

TEST(SharedData, ThePublishedCollectionsAreRecognised) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path data =
      fs::path(shared != nullptr ? shared : TAILRACE_SOURCE_DIR "/../shared") / "data";
  if (!fs::is_directory(data)) GTEST_SKIP() << "no data at " << data << " (set TAILRACE_SHARED)";
  const std::pair<const char*, std::size_t> expected[] = {
      {"arena_hard", 1530},
      {"gpteacher", 9459},
      {"oasst_model_eval", 143'567},
      {"novelty_bench", 680},
      {"sequence_scheduling_vicuna", 4 * 13'395}};
  for (const auto& [name, rows] : expected) {
    const auto set = read_rows((data / name).string(), {});
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_EQ(set->rows.size(), rows) << name;
  }
  for (const char* name : {"consistency_vis", "llm_stability_t0", "alpaca_eval_lengths"}) {
    const auto set = read_rows((data / name).string(), {});
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_GT(set->rows.size(), 5000) << name;
  }
}

}  // namespace
}  // namespace tailrace::evaluate
