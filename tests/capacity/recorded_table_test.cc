// Which cycles the rows of a recording make, and which rows are refused.
#include "tailrace/capacity/recorded_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> cells(std::string_view row) {
  std::vector<std::string> out;
  for (const auto cell : core::split(row, ',')) out.emplace_back(cell);
  return out;
}

constexpr const char* kHeader =
    "time_s,namespace,model,variant,pod,rate,input,output,ttft_ms,itl_ms";

RecordedTable table(const std::string& more = "") {
  auto opened = RecordedTable::open(cells(kHeader + more));
  EXPECT_TRUE(opened);
  return std::move(*opened);
}

std::string refused(RecordedTable& t, std::string_view row) {
  const auto added = t.add(cells(row));
  return added ? "" : added.error().message;
}

TEST(RecordedTable, RowsOfOneTimeMakeACycle) {
  auto t = table();
  ASSERT_FALSE(*t.add(cells("0,ns,m,v,p1,1,2,3,4,5")));
  ASSERT_FALSE(*t.add(cells("0,ns,m,v,p2,1,,nan,+Inf,5")));
  ASSERT_FALSE(*t.add(cells("0,ns,m,w,p3,1,2,3,4,5")));
  ASSERT_FALSE(*t.add(cells("0,ns,other,v,p4,1,2,3,4,5")));
  const auto first = *t.add(cells("60,ns,m,v,p1,9,2,3,4,5"));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->time_s, 0);
  ASSERT_EQ(first->models.size(), 2U);
  const auto& v = first->models[0].variants[0];
  EXPECT_EQ(v.name, "v");
  EXPECT_EQ(v.current, 2) << "the pods that report";
  EXPECT_EQ(*v.pods[0].rate_per_s, 1);
  EXPECT_FALSE(v.pods[1].input_tokens);
  EXPECT_FALSE(v.pods[1].output_tokens);
  EXPECT_TRUE(std::isinf(*v.pods[1].ttft_ms));
  const auto last = t.finish();
  ASSERT_TRUE(last);
  EXPECT_EQ(*last->models[0].variants[0].pods[0].rate_per_s, 9);
}

TEST(RecordedTable, AVariantThatReportsNoMoreKeepsItsPlaceAndItsReplicas) {
  auto t = table();
  (void)t.add(cells("0,ns,m,v,p1,1,2,3,4,5"));
  (void)t.add(cells("0,ns,m,v,p2,1,2,3,4,5"));
  (void)t.add(cells("60,ns,m,w,p3,1,2,3,4,5"));
  const auto last = t.finish();
  ASSERT_EQ(last->models[0].variants.size(), 2U);
  EXPECT_EQ(last->models[0].variants[0].current, 2);
  EXPECT_TRUE(last->models[0].variants[0].pods.empty());
}

TEST(RecordedTable, ColumnsOfVariantAndModelReachThem) {
  auto t = table(
      ",accelerator,current,pending,min,max,cost,gpus,max_batch,kv_tokens,priority,gateway_queue,"
      "scaled_up_at_s");
  ASSERT_EQ(refused(t, "0,ns,m,v,p1,1,2,3,4,5,H100,3,1,1,9,40,2,512,400000,2,17,-60"), "");
  ASSERT_EQ(refused(t, "0,ns,m,v,p2,1,2,3,4,5,,,,,,,,,,,,"), "") << "once is enough";
  ASSERT_EQ(refused(t, "0,ns,m,none,,,,,,,A100,0,,,,,,,,,,"), "") << "a variant without a pod";
  const auto last = t.finish();
  const auto& model = last->models[0];
  const auto& v = model.variants[0];
  EXPECT_EQ(v.accelerator, "H100");
  EXPECT_EQ(v.current, 3);
  EXPECT_EQ(v.pending, 1);
  EXPECT_EQ(v.min, 1);
  EXPECT_EQ(v.max, 9);
  EXPECT_EQ(v.cost, 40);
  EXPECT_EQ(v.gpus_per_replica, 2);
  EXPECT_EQ(v.limits.max_num_seqs, 512);
  EXPECT_EQ(v.limits.kv_tokens, 400000);
  EXPECT_EQ(v.scaled_up_at_s, -60);
  EXPECT_EQ(model.priority, 2);
  EXPECT_EQ(model.gateway->requests, 17);
  EXPECT_EQ(model.variants[1].current, 0);
  EXPECT_TRUE(model.variants[1].pods.empty());
}

TEST(RecordedTable, HeadersAreChecked) {
  const auto message = [](const std::string& header) {
    return RecordedTable::open(cells(header)).error().message;
  };
  EXPECT_THAT(message("time_s,pod"), HasSubstr("the column namespace is missing"));
  EXPECT_THAT(message(std::string(kHeader) + ",acelerator"),
              HasSubstr("did you mean accelerator?"));
  EXPECT_THAT(message(std::string(kHeader) + ",rate"), HasSubstr("twice"));
}

TEST(RecordedTable, WrongCellsAreNamedWithColumnValueAndRemedy) {
  auto t = table(",current,cost,max_batch");
  EXPECT_THAT(refused(t, "0,ns,m,v,p,fast,2,3,4,5,1,1,1"), HasSubstr("column rate: \"fast\""));
  EXPECT_THAT(refused(t, "0,ns,m,v,p,1,2,3,4,5,1.5,1,1"), HasSubstr("not a whole number"));
  EXPECT_THAT(refused(t, "0,ns,m,v,p,1,2,3,4,5,-1,1,1"), HasSubstr("column current: \"-1\""));
  EXPECT_THAT(refused(t, "0,ns,m,v,p,1,2,3,4,5,1,inf,1"), HasSubstr("column cost: \"inf\""));
  EXPECT_THAT(refused(t, "0,ns,m,v,p,1,2,3,4,5,1,1,0"), HasSubstr("from 1 to 1000000"));
  EXPECT_THAT(refused(t, ",ns,m,v,p,1,2,3,4,5,1,1,1"), HasSubstr("time_s"));
  EXPECT_THAT(refused(t, "inf,ns,m,v,p,1,2,3,4,5,1,1,1"), HasSubstr("time_s"));
  EXPECT_THAT(refused(t, "0,,m,v,p,1,2,3,4,5,1,1,1"), HasSubstr("column namespace: empty"));
  EXPECT_THAT(refused(t, "0,ns,m,v,,1,2,3,4,5,1,1,1"), HasSubstr("names no pod"));
  EXPECT_THAT(refused(t, "0,ns,m,v"), HasSubstr("4 cells"));
}

TEST(RecordedTable, ContradictionsAreRefused) {
  auto t = table(",current");
  ASSERT_EQ(refused(t, "60,ns,m,v,p,1,2,3,4,5,2"), "");
  EXPECT_THAT(refused(t, "60,ns,m,v,p,1,2,3,4,5,2"), HasSubstr("two rows of the time 60"));
  EXPECT_THAT(refused(t, "60,ns,m,v,q,1,2,3,4,5,3"), HasSubstr("\"3\" here, but \"2\""));
  EXPECT_THAT(refused(t, "59,ns,m,v,q,1,2,3,4,5,2"), HasSubstr("sort the rows"));
}

TEST(RecordedTable, NoRowsAreNoCycle) {
  EXPECT_FALSE(table().finish());
}

}  // namespace
}  // namespace tailrace::capacity
