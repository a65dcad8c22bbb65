// What is written down survives, and what cannot be is an error.
#include "tailrace/autoscaler/journal.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "autoscaler/support/fakes.h"
#include "support/temp_folder.h"
#include "tailrace/autoscaler/decision_log.h"
#include "tailrace/autoscaler/history.h"
#include "tailrace/autoscaler/state_store.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Database> open(const std::string& path) {
  auto opened = Database::open(path);
  EXPECT_TRUE(opened) << opened.error().message;
  if (!opened) return nullptr;
  EXPECT_FALSE(opened->damage) << opened->damage->message;
  return std::move(opened->database);
}

OpenOrder order(const std::string& id, std::int64_t current, std::int64_t desired) {
  OpenOrder out;
  out.order.id = id;
  auto& d = out.order.decision;
  d.key = {"prod", "llama"};
  d.variant = "h100";
  d.current = d.desired = current;
  d.apply("optimizer", "more is needed", desired);
  d.writer = {"me", 3};
  out.cycle = 7;
  out.time_s = 100;
  out.line = "{\"id\":\"" + id + "\"}";
  return out;
}

TEST(Journal, AnOrderStaysOpenUntilItIsClosed) {
  TempFolder folder;
  const std::vector<OpenOrder> orders = {order("a", 2, 4), order("b", 3, 1)};
  {
    auto database = open(folder.file("db"));
    Journal journal(*database);
    ASSERT_TRUE(journal.begin(orders));
    const std::vector<ClosedOrder> closed = {{"b", "line b"}};
    ASSERT_TRUE(journal.close(closed));
  }
  auto database = open(folder.file("db"));
  EXPECT_EQ(database->generation(), 2u);
  Journal journal(*database);
  EXPECT_EQ(*journal.last_cycle(), 7u);
  const auto left = journal.open_orders();
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 1u);
  const auto& d = left->front().order.decision;
  EXPECT_EQ(left->front().order.id, "a");
  EXPECT_EQ(d.observed(), 2);
  EXPECT_EQ(d.desired, 4);
  EXPECT_EQ(d.action, capacity::Action::kScaleUp);
  EXPECT_EQ(d.writer, (capacity::Writer{"me", 3}));
  const auto unlogged = journal.unlogged();
  ASSERT_TRUE(unlogged);
  ASSERT_EQ(unlogged->size(), 1u);
  EXPECT_EQ(unlogged->front().line, "line b");
  ASSERT_TRUE(journal.logged(*unlogged));
  EXPECT_TRUE(journal.unlogged()->empty());
}

TEST(Database, OneAutoscalerWritesAndOthersMayRead) {
  TempFolder folder;
  auto first = open(folder.file("db"));
  const auto second = Database::open(folder.file("db"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("another autoscaler uses it"));
  History history(*first);
  ASSERT_TRUE(history.add({5, 50, "{}"}, 0));
  const auto reader = Database::open_to_read(folder.file("db"));
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ((*History(**reader).latest())->cycle, 5u);
}

TEST(Database, AFileThatGoesOrIsReplacedWhileInUseIsAnError) {
  TempFolder folder;
  const std::string path = folder.file("db");
  const auto database = open(path);
  ASSERT_TRUE(database);
  Journal journal(*database);
  EXPECT_TRUE(journal.in_place());
  std::filesystem::rename(path, path + ".gone");
  const auto gone = journal.in_place();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(gone.error().message, HasSubstr("removed or replaced while in use"));
  std::ofstream(path) << "another";
  EXPECT_FALSE(journal.in_place());
  std::filesystem::rename(path + ".gone", path);
  EXPECT_TRUE(journal.in_place());
}

TEST(Database, ADamagedFileIsMovedAsideAndSaidSo) {
  TempFolder folder;
  {
    std::ofstream(folder.file("db")) << std::string(9000, 'x');
  }
  auto opened = Database::open(folder.file("db"));
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_TRUE(opened->damage);
  EXPECT_THAT(opened->damage->message, HasSubstr("db.damaged"));
  EXPECT_EQ(std::filesystem::file_size(folder.file("db.damaged")), 9000u);
  EXPECT_EQ(*Journal(*opened->database).last_cycle(), 0u);
}

TEST(Database, DamageInTheMiddleIsFoundWhenItIsOpened) {
  TempFolder folder;
  {
    auto database = open(folder.file("db"));
    History history(*database);
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(history.add({std::uint64_t(i), double(i), std::string(2000, 'y')}, 0));
    }
  }
  {
    std::fstream file(folder.file("db"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5 * 4096);
    file << std::string(3 * 4096, '\xff');
  }
  auto opened = Database::open(folder.file("db"));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->damage);
}

TEST(Database, AFileOfANewerProgramOrAnotherOneIsLeftAlone) {
  TempFolder folder;
  open(folder.file("db")).reset();
  const auto change = [](const std::string& path, const char* sql) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(raw);
  };
  change(folder.file("db"), "PRAGMA user_version = 99");
  const auto newer = Database::open(folder.file("db"));
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, ErrorCode::kUnsupported);
  change(folder.file("other"), "CREATE TABLE t (x)");
  const auto other = Database::open(folder.file("other"));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("another program's"));
  const auto nowhere = Database::open(folder.file("no/such/db"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kInvalidArgument);
}

TEST(Database, AFullDiskIsAnErrorAndWhatWasThereStays) {
  TempFolder folder;
  auto database = open(folder.file("db"));
  Journal journal(*database);
  const std::vector<OpenOrder> first = {order("a", 2, 4)};
  ASSERT_TRUE(journal.begin(first));
  ASSERT_EQ(
      sqlite3_exec(database->handle(), "PRAGMA max_page_count = 1", nullptr, nullptr, nullptr),
      SQLITE_OK);  // no page more than there are
  History history(*database);
  const auto full = history.add({1, 1, std::string(100'000, 'z')}, 0);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.error().message, HasSubstr("free some space"));
  EXPECT_EQ(journal.open_orders()->size(), 1u);
  sqlite3_exec(database->handle(), "PRAGMA max_page_count = 100000", nullptr, nullptr, nullptr);
  EXPECT_TRUE(history.add({1, 1, std::string(100'000, 'z')}, 0));
}

TEST(History, ForgetsWhatIsOldAndFindsWhatWasAtATime) {
  auto database = open("");
  History history(*database);
  for (int i = 1; i <= 10; ++i) {
    ASSERT_TRUE(history.add({std::uint64_t(i), double(10 * i), fmt::format("{}", i)}, 10 * i - 45));
  }
  EXPECT_EQ((*history.latest())->document, "10");
  EXPECT_EQ((*history.latest(75))->document, "7");
  EXPECT_FALSE(history.latest(40)->has_value());
  EXPECT_EQ((*history.of_cycle(6))->time_s, 60);
  EXPECT_FALSE(history.of_cycle(2)->has_value());
}

TEST(StateStore, KeepsTheLatestDocumentInTheFile) {
  TempFolder folder;
  {
    auto database = open(folder.file("db"));
    auto store = database_state_store(*database);
    store->load([](const auto& found) { EXPECT_FALSE(found->has_value()); });
    for (const char* text : {"one", "two"}) {
      store->save(text, [](const auto& saved) { EXPECT_TRUE(saved); });
    }
  }
  auto database = open(folder.file("db"));
  bool loaded = false;
  database_state_store(*database)->load([&](const auto& found) {
    loaded = true;
    EXPECT_EQ(found->value(), "two");
  });
  EXPECT_TRUE(loaded);
}

std::string contents(const std::string& path) {
  return core::read_file(path, 1 << 20).value_or("");
}

TEST(DecisionLog, GrowsToItsBoundAndIsPutAside) {
  TempFolder folder;
  const std::string path = folder.file("log");
  auto log = DecisionLog::open(path, 100, 2);
  ASSERT_TRUE(log);
  for (int i = 0; i < 8; ++i) {
    const std::vector<std::string> lines = {
        fmt::format("{{\"id\":\"{}\",\"x\":\"{:30}\"}}", i, "")};
    ASSERT_TRUE((*log)->append(lines));
  }
  EXPECT_THAT(contents(path), HasSubstr("\"7\""));
  EXPECT_THAT(contents(path + ".1"), HasSubstr("\"5\""));
  EXPECT_THAT(contents(path + ".2"), HasSubstr("\"3\""));
  EXPECT_FALSE(std::filesystem::exists(path + ".3"));
  EXPECT_TRUE((*log)->has("7"));
  EXPECT_FALSE((*log)->has("5"));
}

TEST(DecisionLog, ALineThatACrashCutShortIsRemoved) {
  TempFolder folder;
  const std::string path = folder.file("log");
  {
    std::ofstream(path) << "{\"id\":\"1\"}\n{\"id\":\"2\"";
  }
  auto log = DecisionLog::open(path, 1 << 20, 1);
  ASSERT_TRUE(log);
  const std::vector<std::string> lines = {"{\"id\":\"3\"}"};
  ASSERT_TRUE((*log)->append(lines));
  EXPECT_EQ(contents(path), "{\"id\":\"1\"}\n{\"id\":\"3\"}\n");
}

TEST(DecisionLog, StandardOutputThatNobodyReadsHoldsNothingUpAndIsAnErrorInTheEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int kept = ::dup(STDOUT_FILENO);
  ASSERT_EQ(::dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
  auto log = DecisionLog::open("-", 1, 1);
  const std::vector<std::string> lines{std::string(100'000, 'x')};
  int taken = 0;
  while (taken < 100 && log && (*log)->append(lines)) ++taken;
  log->reset();
  ::dup2(kept, STDOUT_FILENO);
  for (const int descriptor : {kept, ends[0], ends[1]}) ::close(descriptor);
  EXPECT_GE(taken, 10);
  EXPECT_LT(taken, 20);
}

TEST(DecisionLog, AFullDiskIsAnError) {
  auto log = DecisionLog::open("/dev/full", 1 << 20, 1);
  ASSERT_TRUE(log) << log.error().message;
  const std::vector<std::string> lines = {"{}"};
  const auto written = (*log)->append(lines);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace tailrace::autoscaler
