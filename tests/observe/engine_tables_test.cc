#include "observe/engine_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

// A counter was once taken as the level to scale by: it only ever rises, so replicas only rose.
static_assert(!std::is_constructible_v<Gauge, Counter>);
static_assert(!std::is_constructible_v<Level, Counter>);
static_assert(!std::is_constructible_v<Mean, Counter>);
static_assert(!std::is_constructible_v<Share, Counter>);

bool counts(std::string_view name) {
  return name.ends_with("_total") || name.ends_with("_count") || name.ends_with("_sum") ||
         name.ends_with("_bucket");
}

TEST(Aibrix, Issue852_NoCounterStandsWhereALevelIsWanted) {
  const auto check = [](const Gauge& gauge) { EXPECT_FALSE(counts(gauge.name)) << gauge.name; };
  struct Visit {
    decltype(check)& one;
    void operator()(const Gauge& gauge) const { one(gauge); }
    void operator()(const GaugeProduct& product) const { one(product.one), one(product.other); }
    void operator()(const InfoProduct&) const {}
    void operator()(const CounterRatio&) const {}
  };
  for (const auto& table : engine_tables()) {
    for (const auto& gauge : table.running) check(gauge);
    for (const auto& gauge : table.waiting) check(gauge);
    for (const auto& level : table.kv_usage) std::visit(Visit{check}, level);
    for (const auto& level : table.kv_tokens) std::visit(Visit{check}, level);
    for (const auto& share : table.prefix_hit) std::visit(Visit{check}, share);
  }
  for (const auto& table : gateway_tables()) {
    for (const auto& gauge : table.waiting_requests) check(gauge);
    for (const auto& gauge : table.waiting_tokens) check(gauge);
  }
}

TEST(EngineTables, EveryEngineSaysWhatRunsAndWhatWaits) {
  for (const auto& table : engine_tables()) {
    EXPECT_FALSE(table.running.empty()) << to_string(table.kind);
    EXPECT_FALSE(table.waiting.empty()) << to_string(table.kind);
    EXPECT_FALSE(table.itl_ms.empty()) << to_string(table.kind);
    EXPECT_EQ(&table_of(table.kind), &table);
  }
}

TEST(EngineTables, NamesToFetchAreThoseOfTheEnginesAskedForAndOfGateways) {
  const EngineKind engines[] = {EngineKind::kLlamaCpp};
  const auto names = Observer::names_of(engines);
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_TRUE(has("llamacpp:requests_deferred"));
  EXPECT_TRUE(has("tailrace_answer_tokens_bucket"));
  EXPECT_TRUE(has("llm_d_epp_flow_control_queue_size"));
  EXPECT_TRUE(has("process_start_time_seconds"));
  EXPECT_FALSE(has("vllm:num_requests_running"));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(EngineTables, WhatOurGatewayIsAskedForIsWhatItExports) {
  const auto page = core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/docs/metrics.md", 1 << 20);
  ASSERT_TRUE(page);
  int asked = 0;
  for (std::string name : Observer::names_of({})) {
    if (!name.starts_with("tailrace_")) continue;
    for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
      if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    }
    EXPECT_THAT(*page, ::testing::HasSubstr("| `" + name + "` |"));
    ++asked;
  }
  EXPECT_GE(asked, 10);
}

TEST(EngineTables, ThePageSaysWhatTheCodeKnows) {
  const auto page =
      core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/docs/autoscaler-metrics.md", 1 << 20);
  ASSERT_TRUE(page);
  EXPECT_THAT(*page, ::testing::EndsWith("\n\n" + engine_tables_reference()))
      << "the table at its end should be:\n"
      << engine_tables_reference();
}

}  // namespace
}  // namespace tailrace::observe
