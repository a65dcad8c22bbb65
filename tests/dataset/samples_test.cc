#include "tailrace/dataset/samples.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dataset/support/packed.h"

namespace tailrace::dataset {
namespace {

using Samples = std::vector<Sample>;

Result<Samples> samples_of(std::string text, SampleOptions options = {}) {
  auto reader = SampleReader::from_bytes(std::move(text), "t", options);
  if (!reader) return fail(reader.error());
  Samples all;
  for (;;) {
    auto sample = reader->next();
    if (!sample) return fail(sample.error());
    if (!*sample) return all;
    all.push_back(std::move(**sample));
  }
}

void expect_samples(std::string text, const Samples& expected, SampleOptions options = {}) {
  const auto samples = samples_of(std::move(text), options);
  ASSERT_TRUE(samples.has_value()) << samples.error().message;
  EXPECT_EQ(*samples, expected);
}

TEST(Samples, AJsonLineIsAPrompt) {
  expect_samples(
      "{\"id\":\"a\",\"lengths\":[1,2.5],\"cap\":8}\n\n{\"lengths\":[3],\"id\":7,\"cap\":null}",
      {{"a", {1, 2.5}, 8}, {"7", {3}, {}}});
}

TEST(Samples, OtherNamesOfTheFieldsAreUnderstoodAndSettingsJoinTheId) {
  expect_samples(
      R"({"model":"m","prompt_id":"p","plan":"x","temperature":0.7,"n":2,"tokens":[5,9]})"
      "\n"
      R"({"model":"m","prompt_id":"p","plan":"y","temperature":null,"tokens":[5]})",
      {{"p@m,x,0.7", {5, 9}, {}}, {"p@m,y", {5}, {}}});
}

TEST(Samples, LengthsAboveAnEnginesOwnLimitWereCutAtIt) {
  expect_samples(R"({"prompt_id":"p","tokens":[5,300,316],"max_tokens":300})",
                 {{"p", {5, 300, 300}, 300}});
}

TEST(Samples, ALineOfManyPromptsGivesEachAndPoolingPutsTheirConfigurationsTogether) {
  const std::string text = R"({"model":"m","config":"greedy","out_tokens":{"1":[4],"2":[5]}})"
                           "\n"
                           R"({"model":"m","config":"hot","out_tokens":{"2":[6],"1":[7,8]}})"
                           "\n"
                           R"({"model":"other","config":"hot","out_tokens":{"1":[9]}})";
  expect_samples(text, {{"1@m,greedy", {4}, {}},
                        {"2@m,greedy", {5}, {}},
                        {"2@m,hot", {6}, {}},
                        {"1@m,hot", {7, 8}, {}},
                        {"1@other,hot", {9}, {}}});
  SampleOptions pool;
  pool.pool = true;
  expect_samples(text, {{"1@m", {4, 7, 8}, {}}, {"2@m", {5, 6}, {}}, {"1@other", {9}, {}}}, pool);
}

TEST(Samples, RowsOfALongCsvMakeOnePromptWhileTheirIdStays) {
  expect_samples("id,length,cap\na,1,\na,2,\n\"b,c\",4,4\nd,3,9\n",
                 {{"a", {1, 2}, {}}, {"b,c", {4}, 4}, {"d", {3}, 9}});
}

TEST(Samples, ALongCsvWithoutIdsIsOnePrompt) {
  expect_samples("input_tokens,output_tokens\n5,1\n5,2\n", {{"all", {1, 2}, {}}});
}

TEST(Samples, ARowOfACsvMayHoldAWholePrompt) {
  expect_samples("id,lengths\na,1 2 3\nb,\"[4, 5]\"\n", {{"a", {1, 2, 3}, {}}, {"b", {4, 5}, {}}});
  expect_samples("id,length_1,length_2,cap\na,1,2,\nb,3,,3\n", {{"a", {1, 2}, {}}, {"b", {3}, 3}});
}

TEST(Samples, PackedRecordsAreRecords) {
  for (const test::Packing packing : test::kPackings) {
    expect_samples(test::pack(packing, "{\"id\":\"a\",\"lengths\":[1]}\n"), {{"a", {1}, {}}});
  }
}

TEST(Samples, MoreLengthsThanTheLimitAreRefused) {
  SampleOptions small;
  small.max_lengths = 2;
  for (const char* text : {R"({"id":"a","lengths":[1,2,3]})", "id,length\na,1\na,2\na,3\n"}) {
    const auto samples = samples_of(text, small);
    ASSERT_FALSE(samples.has_value());
    EXPECT_NE(samples.error().message.find("more than 2 lengths"), std::string::npos);
  }
}

struct Bad {
  const char* text;
  const char* words;
};

class SampleErrors : public testing::TestWithParam<Bad> {};

TEST_P(SampleErrors, NameFileLineFieldAndValue) {
  const auto samples = samples_of(GetParam().text);
  ASSERT_FALSE(samples.has_value());
  const std::string& message = samples.error().message;
  EXPECT_TRUE(message.starts_with("t: ")) << message;
  EXPECT_NE(message.find(GetParam().words), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Json, SampleErrors,
    testing::Values(Bad{"", "empty"}, Bad{" \n\n", "empty"}, Bad{"[1,2]", "a JSON list"},
                    Bad{"{\n", "line 1: \"{\" is not a whole JSON object"},
                    Bad{"{\"id\":\"a\",\"lengths\":[1]}\nnonsense", "line 2: \"nonsense\" is not"},
                    Bad{"{\"id\":\"a\",\"lengths\":[1]}\n7", "line 2"},
                    Bad{"{\"id\":\"\xff\",\"lengths\":[1]}", "not UTF-8"},
                    Bad{R"({"id":"a"})", "no field \"lengths\""},
                    Bad{R"({"id":"a","lengths":null})", "no field \"lengths\""},
                    Bad{R"({"id":"a","lengths":[]})", "lengths is empty"},
                    Bad{R"({"id":"a","lengths":5})", "lengths is \"5\"; it must be a list"},
                    Bad{R"({"id":"a","lengths":[3,0]})", "lengths[1] is \"0\""},
                    Bad{R"({"id":"a","lengths":[-4]})", "lengths[0] is \"-4\""},
                    Bad{R"({"id":"a","lengths":[NaN]})", "line 1"},
                    Bad{R"({"id":"a","lengths":[1e400]})", "line 1"},
                    Bad{R"({"id":"a","lengths":[1e300]})", "at most 1e12"},
                    Bad{R"({"id":"a","lengths":["12"]})", "lengths[0] is \"\\\"12\\\"\""},
                    Bad{R"({"id":"a","lengths":[[1]]})", "lengths[0] is \"[1]\""},
                    Bad{R"({"id":"a","lengths":[null]})", "lengths[0] is \"null\""},
                    Bad{R"({"id":"a","lengths":[5],"cap":4})", "cap is 4, but a length is 5"},
                    Bad{R"({"id":"a","lengths":[5],"cap":0})", "cap is \"0\""},
                    Bad{R"({"id":"a","lengths":[5],"cap":"9"})", "cap is"},
                    Bad{R"({"id":[1],"lengths":[5]})", "id is \"[1]\""},
                    Bad{R"({"prompt_id":"a","model":{},"tokens":[5]})", "model is"},
                    Bad{R"({"model":"m","out_tokens":[1]})", "out_tokens is"},
                    Bad{R"({"model":"m","out_tokens":{"4":[]}})", "out_tokens[\"4\"] is empty"}));

INSTANTIATE_TEST_SUITE_P(
    Csv, SampleErrors,
    testing::Values(Bad{"a,b\n1,2\n", "names no column of lengths"},
                    Bad{"id,length\n", "it holds no lengths"},
                    Bad{"id,length\na,1\nb,2\na,3\n", "line 4: \"a\" comes back"},
                    Bad{"id,length\na,0\n", "line 2: length is \"0\""},
                    Bad{"id,length\na,-1\n", "line 2: length is \"-1\""},
                    Bad{"id,length\na,nan\n", "line 2: length is \"nan\""},
                    Bad{"id,length\na,inf\n", "line 2: length is \"inf\""},
                    Bad{"id,length\na,\n", "line 2: length is \"\""},
                    Bad{"id,length\na,x\n", "line 2: length is \"x\""},
                    Bad{"id,length,cap\na,5,4\n", "\"a\": cap is 4, but a length is 5"},
                    Bad{"id,length,cap\na,3,4\na,3,5\n", "line 3: cap of \"a\" is \"5\""},
                    Bad{"id,lengths\na,\n", "\"a\" has no lengths"},
                    Bad{"id,length_1\na,\n", "\"a\" has no lengths"}));

TEST(Samples, ANestedRecordIsRefusedAndNotFollowed) {
  const std::string deep = "{\"id\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  const auto samples = samples_of(deep);
  ASSERT_FALSE(samples.has_value());
  EXPECT_NE(samples.error().message.find("nested too deep"), std::string::npos)
      << samples.error().message;
  EXPECT_LT(samples.error().message.size(), 300u);
}

TEST(Samples, FilesAreReadOneAfterTheOtherAndAMissingOneIsNamed) {
  SampleReader reader({"/no/such/file.jsonl"});
  const auto sample = reader.next();
  ASSERT_FALSE(sample.has_value());
  EXPECT_EQ(sample.error().code, ErrorCode::kNotFound);
  EXPECT_NE(sample.error().message.find("/no/such/file.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace tailrace::dataset
