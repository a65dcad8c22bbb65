#include "tailrace/dataset/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "dataset/date_time.h"
#include "dataset/support/packed.h"
#include "support/temp_folder.h"

namespace tailrace::dataset {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;
using Rows = std::vector<TraceRow>;

Result<Rows> all_of(Result<TraceReader> reader) {
  if (!reader) return fail(reader.error());
  Rows rows;
  TraceRow row;
  for (;;) {
    auto more = reader->next(row);
    if (!more) return fail(more.error());
    if (!*more) return rows;
    rows.push_back(row);
  }
}

Result<Rows> rows_of(std::string text, TraceOptions options = {}) {
  return all_of(TraceReader::from_bytes(std::move(text), "t", options));
}

std::string error_of(std::string text, TraceOptions options = {}) {
  const auto rows = rows_of(std::move(text), options);
  return rows ? "read" : rows.error().message;
}

std::string made_path(std::string_view name) {
  return std::string(TAILRACE_SOURCE_DIR "/tests/data/traces/") + std::string(name);
}

Rows made_rows(std::string_view name) {
  auto rows = all_of(TraceReader::open(made_path(name)));
  EXPECT_TRUE(rows.has_value()) << rows.error().message;
  return rows ? std::move(*rows) : Rows{};
}

std::string text_of(std::string_view name) {
  std::ifstream in(made_path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr std::string_view kAzure = "t_s,input_tokens,output_tokens\n";

TEST(Trace, EveryFormatTellsTheSameTwelveRequests) {
  const Rows expected = made_rows("azure_reduced.csv");
  ASSERT_EQ(expected.size(), 12u);
  for (const std::string_view name : {"azure_2023.csv", "azure_2024.csv", "mooncake.jsonl",
                                      "mooncake_reduced.jsonl", "vllm_requests.csv", "own.jsonl"}) {
    const Rows rows = made_rows(name);
    ASSERT_EQ(rows.size(), 12u) << name;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_NEAR(rows[i].arrival_s, expected[i].arrival_s, 1e-9) << name;
      EXPECT_EQ(rows[i].prompt_tokens, expected[i].prompt_tokens) << name;
      EXPECT_EQ(rows[i].output_tokens, expected[i].output_tokens) << name;
    }
  }
}

TEST(Trace, FormatsAreToldApartByContent) {
  const std::pair<std::string_view, TraceFormat> formats[] = {
      {"azure_reduced.csv", TraceFormat::kAzure},
      {"azure_2023.csv", TraceFormat::kAzure},
      {"burstgpt.csv", TraceFormat::kBurstGpt},
      {"mooncake.jsonl", TraceFormat::kMooncake},
      {"own.jsonl", TraceFormat::kOwn},
      {"mooncake_reduced.jsonl", TraceFormat::kMooncake},
      {"vllm_requests.csv", TraceFormat::kVllmRequests}};
  for (const auto& [name, format] : formats) {
    const auto reader = TraceReader::open(made_path(name));
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    EXPECT_EQ(reader->format(), format) << name;
  }
}

TEST(Trace, PackedOnesReadAsPlainOnesDo) {
  const std::string text = text_of("mooncake.jsonl");
  for (const test::Packing packing : test::kPackings) {
    const auto rows = rows_of(test::pack(packing, text));
    ASSERT_TRUE(rows.has_value()) << rows.error().message;
    EXPECT_EQ(*rows, made_rows("mooncake.jsonl"));
  }
}

TEST(Trace, RequestsWithoutAnAnswerAreDroppedAndCounted) {
  auto reader = TraceReader::open(made_path("burstgpt.csv"));
  ASSERT_TRUE(reader.has_value());
  TraceRow row;
  std::size_t rows = 0;
  while (*reader->next(row)) {
    ++rows;
    EXPECT_THAT(row.tenant, testing::AnyOf("GPT-4", "ChatGPT"));
  }
  EXPECT_EQ(rows, 11u);
  EXPECT_EQ(reader->dropped(), 1u);
}

TEST(Trace, DatesCountFromTheFirstRowAndKeepItsMoment) {
  auto reader = TraceReader::open(made_path("azure_2024.csv"));
  ASSERT_TRUE(reader.has_value());
  TraceRow row;
  ASSERT_TRUE(*reader->next(row));
  EXPECT_EQ(row.arrival_s, 0);
  EXPECT_EQ(reader->epoch_ns(), parse_date_time("2031-03-01 23:59:58"));
}

TEST(Trace, DateTimesAreReadInTheirForms) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  EXPECT_EQ(parse_date_time("1970-01-01 00:00:00"), 0);
  EXPECT_EQ(parse_date_time("2023-11-16 18:15:46.6805900"), 1'700'158'546 * kSecond + 680'590'000);
  EXPECT_EQ(parse_date_time("2024-05-10T02:00:00.009930+02:00"),
            1'715'299'200 * kSecond + 9'930'000);
  EXPECT_EQ(parse_date_time("2024-05-09 20:30:00-0330"), 1'715'299'200 * kSecond);
  EXPECT_EQ(parse_date_time("2024-02-29 23:59:59Z"), 1'709'251'199 * kSecond);
  for (const std::string_view wrong :
       {"", "2024", "2024-02-30 00:00:00", "2023-02-29 00:00:00", "2024-05-10 24:00:00",
        "2024-05-10 00:60:00", "2024-05-10 00:00:60", "2024-05-10 00:00:00.",
        "2024-05-10 00:00:00.1234567890", "2024-05-10 00:00:00 UTC", "2024-05-10 00:00:00+25:00",
        "24-05-10 00:00:00", "9999-01-01 00:00:00", "2024-05-10 0:00:00"}) {
    EXPECT_FALSE(parse_date_time(wrong).has_value()) << wrong;
  }
}

TEST(Trace, OwnLinesSayAllThatARequestCan) {
  const auto good = rows_of(
      R"({"id":"a","arrival_s":1.5,"prompt_tokens":100,"output_tokens":20,"max_tokens":64,)"
      R"("tenant":"t","priority":-3,"weight":2.5,"deadline_ms":1500,"session":"s",)"
      R"("prefix_ids":[0,18446744073709551615,-1],"tokens_per_id":64,"law":{"mu":3,"sigma":0.5}})"
      "\n"
      R"({"arrival_s":2,"prompt":"eight by","output_tokens":1,"session":"s","max_tokens":null})");
  ASSERT_TRUE(good.has_value()) << good.error().message;
  TraceRow first;
  first.arrival_s = 1.5;
  first.prompt_tokens = 100;
  first.output_tokens = 20;
  first.cap = 64;
  first.tenant = "t";
  first.priority = -3;
  first.weight = 2.5;
  first.deadline_s = 1.5;
  first.prefix_ids = {0, ~std::uint64_t{0}, ~std::uint64_t{0}};
  first.tokens_per_id = 64;
  first.law = TraceLaw{3, 0.5, 3.5};
  first.session = (*good)[1].session;
  EXPECT_EQ((*good)[0], first);
  EXPECT_NE(first.session, 0u);
  EXPECT_EQ((*good)[1].prompt_tokens, 6) << "two for eight bytes, four for the message";
  EXPECT_FALSE((*good)[1].cap.has_value());
}

TEST(Trace, ArrivalsThatFallAreRefusedByLine) {
  EXPECT_EQ(
      error_of(std::string(kAzure) + "1,1,1\n3,1,1\n2.5,1,1\n"),
      "t: line 4: the request came at 2.5 s, but one before it at 3 s; sort the trace by time "
      "of arrival");
  EXPECT_THAT(
      error_of("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01,1,1\n"
               "2024-05-10 00:00:00,1,1\n"),
      StartsWith("t: line 3: the request came at \"2024-05-10 00:00:00\", before the first"));
}

TEST(Trace, AfterAnErrorEveryCallRepeatsIt) {
  auto reader = TraceReader::from_bytes(std::string(kAzure) + "x,1,1\n0,1,1\n", "t");
  TraceRow row;
  const auto first = reader->next(row);
  const auto second = reader->next(row);
  ASSERT_FALSE(first.has_value() || second.has_value());
  EXPECT_EQ(first.error().message, second.error().message);
}

struct Hostile {
  std::string text;
  std::string_view message;
};

TEST(Trace, HostileRowsAreRefusedEachWithOneClearMessage) {
  const std::string own = R"({"arrival_s":0,"prompt_tokens":1,"output_tokens":1,)";
  const std::string mooncake = R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":)";
  const auto azure = [](std::string_view row) { return std::string(kAzure) + std::string(row); };
  const Hostile hostile[] = {
      {"", "t: it is empty; the first line must be"},
      {"\n\r\n  \n", "t: it is empty; the first line must be"},
      {std::string(kAzure), "t: it holds no request that was answered; give at least one"},
      {azure("0,0,5\n0,5,0\n"), "t: it holds no request that was answered"},
      {azure("nan,1,1\n"), "t: line 2: \"t_s\" is \"nan\"; it must be seconds"},
      {azure("inf,1,1\n"), "t: line 2: \"t_s\" is \"inf\"; it must be seconds"},
      {azure("1e400,1,1\n"), "t: line 2: \"t_s\" is \"1e400\"; it must be seconds"},
      {azure("-1,1,1\n"), "t: line 2: \"t_s\" is \"-1\"; it must be seconds"},
      {azure("1700000000,1,1\n"), "t: line 2: \"t_s\" is \"1700000000\"; it must be seconds"},
      {azure("0,nan,1\n"), "t: line 2: \"input_tokens\" is \"nan\"; it must be a whole number"},
      {azure("0,1,-4\n"), "t: line 2: \"output_tokens\" is \"-4\"; it must be a whole number"},
      {azure("0,1.5,1\n"), "t: line 2: \"input_tokens\" is \"1.5\"; it must be a whole number"},
      {azure("0,1e13,1\n"), "t: line 2: \"input_tokens\" is \"1e13\"; it must be a whole number"},
      {azure("0,99999999999999999999,1\n"), "t: line 2: \"input_tokens\" is \"9999"},
      {azure("0,,1\n"), "t: line 2: \"input_tokens\" is \"\"; it must be a whole number"},
      {azure(std::string("0,1\0,1\n", 7)), "t: line 2: \"input_tokens\" is \"1\\x00\""},
      {azure("0,1\n"), "t: line 2: 2 cells, but the header names 3 columns"},
      {azure("0,1,1,1\n"), "t: line 2: more than 3 cells, but the header names 3"},
      {azure("0,1,\"1\n"), "t: line 2: a quote that opens here is never closed"},
      {azure("0,1,\xff\n"), "t: line 2: not UTF-8 text"},
      {azure(std::string(kTraceLineBytesMax + 1, '1')), "t: line 2 is longer than 4194304 bytes"},
      {azure(std::string(kAzure)), "t: line 2: \"t_s\" is \"t_s\"; it must be seconds"},
      {"t_s,t_s,input_tokens,output_tokens\n", "t: line 1: two columns are called \"t_s\""},
      {"t_s,input_tokens\n", "t: line 1: the header \"t_s,input_tokens\" does not name"},
      {"[1,2]\n", "t: line 1: a JSON list; give one object a line"},
      {"{]\n", "t: line 1: \"{]\" is not a whole JSON object"},
      {"{}\n", "t: line 1: arrival_s is missing"},
      {R"({"arrival_s":0,"output_tokens":1})", "t: line 1: prompt_tokens is missing"},
      {R"({"arrival_s":0,"prompt_tokens":1})", "t: line 1: output_tokens is missing"},
      {R"({"arrival_s":0,"prompt_tokens":0,"output_tokens":1})",
       "t: line 1: prompt_tokens is \"0\""},
      {R"({"arrival_s":1e400,"prompt_tokens":1,"output_tokens":1})", "t: line 1: \"{\\\"arrival_s"},
      {R"({"arrival_s":"0","prompt_tokens":1,"output_tokens":1})", "t: line 1: arrival_s is"},
      {own + R"("law":)" + std::string(90, '[') + std::string(90, ']') + "}",
       "t: line 1: \"{\\\"arrival_s"},
      {own + R"("law":{"mu":1,"sigma":0}})", "t: line 1: law.sigma is \"0\"; it must be a number"},
      {own + R"("law":{"mu":1}})", "t: line 1: law lacks mu or sigma"},
      {own + R"("law":3})", "t: line 1: law is \"3\"; it must be an object"},
      {own + R"("max_tokens":0})", "t: line 1: max_tokens is \"0\""},
      {own + R"("weight":0})", "t: line 1: weight is \"0\""},
      {own + R"("priority":0.5})", "t: line 1: priority is \"0.5\"; it must be a whole number"},
      {own + R"("deadline_ms":-1})", "t: line 1: deadline_ms is \"-1\""},
      {own + R"("session":[1]})", "t: line 1: session is \"[1]\"; it must be a text or a number"},
      {own + R"("tenant":1})", "t: line 1: tenant is \"1\"; it must be a text"},
      {own + R"("tokens_per_id":0})", "t: line 1: tokens_per_id is \"0\""},
      {own + R"("Tenant":"x"})", "t: line 1: \"Tenant\" is unknown; the fields are"},
      {mooncake + R"("x"})", "t: line 1: hash_ids is"},
      {mooncake + "[1.5]}", "t: line 1: hash_ids[0] is \"1.5\"; it must be a whole number"},
      {mooncake + "[18446744073709551616]}", "t: line 1: \"{\\\"timestamp"},
      {R"({"timestamp":0,"input_length":1})", "t: line 1: output_length is missing"},
      {R"({"t_ms":0,"output_tokens":1})", "t: line 1: input_length is missing"},
      {R"({"hash_ids":[]})", "t: line 1: timestamp is missing"},
  };
  for (const Hostile& h : hostile) {
    EXPECT_THAT(error_of(h.text), StartsWith(std::string(h.message)));
  }
}

TEST(Trace, MoreIdsThanARowMayHoldAreRefused) {
  std::string ids = "[0";
  for (std::size_t i = 0; i < kTraceIdsMax; ++i) ids += ",1";
  EXPECT_THAT(
      error_of(R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":)" + ids + "]}"),
      StartsWith("t: line 1: hash_ids holds more than 100000 ids"));
}

TEST(Trace, WindowsOfServeGenAreNamedAsSuch) {
  EXPECT_THAT(error_of(text_of("servegen_arrival_windows.csv")),
              HasSubstr("is that of ServeGen's arrival windows"));
}

TEST(Trace, AFormatThatTheFileHasNotIsRefused) {
  EXPECT_THAT(error_of(std::string(kAzure), {TraceFormat::kBurstGpt}),
              HasSubstr("it must name Timestamp,Request tokens,Response tokens (burstgpt)"));
  EXPECT_THAT(error_of(std::string(kAzure), {TraceFormat::kOwn}),
              HasSubstr("a trace of format tailrace is JSON lines"));
  EXPECT_THAT(error_of("{}", {TraceFormat::kAzure}), HasSubstr("a trace of format azure is CSV"));
}

TEST(Trace, ByteOrderMarkAndWindowsLineEndsAndWholeRealsAreUnderstood) {
  const auto rows = rows_of("\xef\xbb\xbft_s,input_tokens,output_tokens\r\n0,12.0,3\r\n\r\n1,4,5");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].prompt_tokens, 12);
}

/// Peak resident bytes since the last reset; nothing where the kernel does not say.
std::optional<std::size_t> peak_bytes(bool reset) {
  if (reset) {
    std::ofstream refs("/proc/self/clear_refs");
    if (!(refs << "5" << std::flush)) return std::nullopt;
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return std::nullopt;
}

TEST(Trace, ReadingALongOneFiveTimesTakesNoMoreMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
#endif
  const TempFolder folder;
  const std::string path = folder.file("long_trace");
  {
    std::ofstream out(path);
    for (int i = 0; i < 100'000; ++i) {
      out << R"({"timestamp":)" << i << R"(,"input_length":9000,"output_length":300,"hash_ids":[0)";
      for (int id = 1; id < 18; ++id) out << ',' << 100 * i + id;
      out << "]}\n";
    }
  }
  const auto before = peak_bytes(true);
  if (!before) GTEST_SKIP() << "no /proc to read the memory from";
  std::size_t rows = 0;
  for (int pass = 0; pass < 5; ++pass) {
    auto reader = TraceReader::open(path);
    ASSERT_TRUE(reader.has_value());
    TraceRow row;
    while (*reader->next(row)) ++rows;
  }
  const std::size_t after = *peak_bytes(false);
  EXPECT_EQ(rows, 500'000u);
  EXPECT_LT(after - *before, std::size_t{3} << 20) << fs::file_size(path) << " bytes of trace";
}

std::optional<std::string> shared_file(const std::string& name) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path path =
      fs::path(shared ? shared : TAILRACE_SOURCE_DIR "/../shared") / "data" / name;
  if (!fs::exists(path)) return std::nullopt;
  return path.string();
}

/// As an independent reader counts them, in the shared two thirds.
struct Recorded {
  std::string name;
  std::size_t rows;
  std::int64_t prompt_tokens, output_tokens;
  double last_s;
  std::size_t ids, ids_seen_before;
};

TEST(Trace, RecordedOnesHaveTheRequestsTokensAndPrefixesThatTheyHold) {
  const Recorded recorded[] = {
      {"azure_llm_2023/conv.csv.gz", 12'910, 15'833'225, 2'604'209, 2179.3925, 0, 0},
      {"azure_llm_2023/code.csv.gz", 5'879, 11'882'371, 160'186, 1872.5549, 0, 0},
      {"mooncake/conversation.jsonl.gz", 8'020, 99'323'212, 2'783'966, 2448, 197'782, 69'314},
      {"mooncake/synthetic.jsonl.gz", 2'662, 35'386'044, 487'796, 694.768, 70'777, 31'114}};
  for (const Recorded& expected : recorded) {
    const auto path = shared_file(expected.name);
    if (!path) GTEST_SKIP() << "no recorded traces; set TAILRACE_SHARED";
    const auto rows = all_of(TraceReader::open(*path));
    ASSERT_TRUE(rows.has_value()) << rows.error().message;
    Recorded found{expected.name, rows->size(), 0, 0, 0, 0, 0};
    std::vector<bool> seen;
    for (const TraceRow& row : *rows) {
      found.prompt_tokens += row.prompt_tokens;
      found.output_tokens += row.output_tokens;
      found.last_s = row.arrival_s;
      found.ids += row.prefix_ids.size();
      for (const std::uint64_t id : row.prefix_ids) {
        if (id >= seen.size()) seen.resize(id + 1, false);
        found.ids_seen_before += seen[id] ? 1 : 0;
        seen[id] = true;
      }
    }
    EXPECT_EQ(found.rows, expected.rows) << expected.name;
    EXPECT_EQ(found.prompt_tokens, expected.prompt_tokens) << expected.name;
    EXPECT_EQ(found.output_tokens, expected.output_tokens) << expected.name;
    EXPECT_NEAR(found.last_s, expected.last_s, 1e-9) << expected.name;
    EXPECT_EQ(found.ids, expected.ids) << expected.name;
    EXPECT_EQ(found.ids_seen_before, expected.ids_seen_before) << expected.name;
  }
}

TEST(Trace, VllmRecordsAreReadAsTheyAre) {
  const auto path = shared_file("llmservingsim_vllm/RTX4090_Llama-3.1-8B_requests.csv.gz");
  if (!path) GTEST_SKIP() << "no recorded traces; set TAILRACE_SHARED";
  const auto rows = all_of(TraceReader::open(*path));
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(rows->size(), 300u);
  EXPECT_EQ((*rows)[1].prompt_tokens, 1034);
  EXPECT_EQ((*rows)[1].output_tokens, 769);
}

}  // namespace
}  // namespace tailrace::dataset
