#include "observe/series_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tailrace::observe {
namespace {

const SeriesKey kKey{"requests_total", {}};

Track remembered(const std::vector<Point>& points, HistoryNotes* notes = nullptr,
                 HistoryLimits limits = {}) {
  SeriesHistory history(limits);
  HistoryNotes own;
  history.add({kKey, points}, 1'000, notes != nullptr ? *notes : own);
  const auto found = history.tracks().find(kKey);
  return found == history.tracks().end() ? Track{} : found->second;
}

TEST(SeriesHistory, KeepsTheWindowAndOnePointBeforeIt) {
  const auto track = remembered({{900, 1}, {910, 2}, {935, 3}, {950, 4}, {990, 5}});
  ASSERT_EQ(track.points.size(), 4U);  // the window begins after 930
  EXPECT_EQ(track.points.front().time_s, 910);
}

TEST(SeriesHistory, PointsMayComeInAnyOrderAndTwice) {
  const auto track = remembered({{990, 5}, {970, 3}, {980, 4}, {970, 3}});
  ASSERT_EQ(track.points.size(), 3U);
  EXPECT_EQ(track.points[0].value, 3);
  EXPECT_EQ(track.points[2].value, 5);
}

TEST(SeriesHistory, TwoValuesForOneTimeAreNotedAndTheLargerCounts) {
  HistoryNotes notes;
  const auto track = remembered({{990, 5}, {990, 7}, {990, 6}}, &notes);
  ASSERT_EQ(track.points.size(), 1U);
  EXPECT_EQ(track.points[0].value, 7);
  EXPECT_EQ(notes.contradicts, 2U);
}

TEST(SeriesHistory, DoesNotBelieveTheFarFuture) {
  HistoryNotes notes;
  const auto track = remembered({{990, 5}, {1'030, 6}, {2'000, 7}}, &notes);
  ASSERT_EQ(track.points.size(), 2U);
  EXPECT_EQ(notes.future, 1U);
  EXPECT_EQ(notes.ahead_s, 1'000);
}

TEST(SeriesHistory, APointThatIsNoNumberIsNoValueButHasATime) {
  const auto track = remembered({{980, 5}, {990, std::nan("")}});
  EXPECT_FALSE(track.says_number());
  EXPECT_EQ(track.newest_s(), 990);
  ASSERT_EQ(track.points.size(), 1U);
}

TEST(SeriesHistory, ACountBelowZeroIsNoValueAndNoted) {
  HistoryNotes notes;
  const auto track = remembered({{970, -5}, {980, -60}, {990, -90}}, &notes);
  EXPECT_TRUE(track.points.empty());
  EXPECT_FALSE(track.says_number());
  EXPECT_EQ(track.newest_s(), 990);
  EXPECT_EQ(notes.negative, 3U);
  EXPECT_EQ(notes.negative_subject, "requests_total");
  // A level may be what it likes; its reader judges.
  SeriesHistory history({});
  history.add({{"room", {}}, {{990, -1}}}, 1'000, notes);
  EXPECT_EQ(history.tracks().at({"room", {}}).points.size(), 1U);
  EXPECT_EQ(notes.negative, 3U);
}

TEST(SeriesHistory, HoldsNoMoreSeriesAndPointsThanItsLimits) {
  HistoryLimits limits;
  limits.series_max = 1;
  limits.points_max = 2;
  SeriesHistory history(limits);
  HistoryNotes notes;
  history.add({kKey, {{980, 1}, {985, 2}, {990, 3}}}, 1'000, notes);
  history.add({{"another", {}}, {{990, 1}}}, 1'000, notes);
  ASSERT_EQ(history.tracks().size(), 1U);
  EXPECT_EQ(history.tracks().begin()->second.points.size(), 2U);
  EXPECT_EQ(notes.refused, 1U);
}

TEST(SeriesHistory, ForgetsWhatHasBeenSilentForLong) {
  SeriesHistory history({});
  HistoryNotes notes;
  history.add({kKey, {{990, 1}}}, 1'000, notes);
  history.forget_before(990);
  EXPECT_EQ(history.tracks().size(), 1U);
  history.forget_before(991);
  EXPECT_TRUE(history.tracks().empty());
}

TEST(CounterIncrease, IsWhatWasCountedBetweenItsFirstAndLastPoint) {
  const std::vector<Point> points{{0, 100}, {15, 130}, {30, 160}};
  const auto rise = increase_of(points, {});
  ASSERT_TRUE(rise);
  EXPECT_EQ(rise->amount, 60);
  EXPECT_EQ(rise->per_s(), 2);
}

TEST(CounterIncrease, OfASinglePointIsNotKnownYet) {
  const std::vector<Point> points{{0, 100}};
  EXPECT_FALSE(increase_of(points, {}));
  EXPECT_FALSE(increase_of({}, {}));
}

TEST(CounterIncrease, GoesOnFromZeroWhereTheCounterFell) {
  const std::vector<Point> points{{0, 100}, {15, 130}, {30, 20}, {45, 30}};
  const auto rise = increase_of(points, {});
  ASSERT_TRUE(rise);
  EXPECT_EQ(rise->amount, 30 + 20 + 10);
  EXPECT_EQ(rise->resets_s, std::vector<double>{30});
}

TEST(CounterIncrease, SeesARestartThatTheCounterHides) {
  // It had counted 10, began anew and counted 40 since.
  const std::vector<Point> points{{0, 10}, {15, 40}};
  const std::vector<Point> starts{{0, 5'000}, {15, 5'010}};
  EXPECT_EQ(increase_of(points, {})->amount, 30);
  EXPECT_EQ(increase_of(points, starts)->amount, 40);
}

TEST(CounterIncrease, OfNegativeCountsAndOfOverflowIsNotKnown) {
  const std::vector<Point> negative{{0, -5}, {15, -1}};
  EXPECT_FALSE(increase_of(negative, {}));
  const double most = std::numeric_limits<double>::max();
  const std::vector<Point> huge{
      {0, most}, {1, most / 2}, {2, most}, {3, most / 2}, {4, most * 0.9}};
  EXPECT_FALSE(increase_of(huge, {}));
}

TEST(Gaps, NothingIsToldAcrossALongOne) {
  const std::vector<Point> points{{0, 1}, {15, 2}, {600, 3}, {615, 4}};
  EXPECT_EQ(after_gap(points, 150).size(), 2U);
  EXPECT_EQ(after_gap(points, 1'000).size(), 4U);
}

}  // namespace
}  // namespace tailrace::observe
