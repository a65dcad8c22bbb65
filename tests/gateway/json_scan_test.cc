#include "gateway/json_scan.h"

#include <gtest/gtest.h>

#include <string>

namespace tailrace::gateway {
namespace {

std::string value_of(std::string_view json, std::string_view name) {
  const auto member = last_member(json, skip_space(json, 0), name);
  if (!member) return "(none)";
  return std::string(json.substr(member->value_begin, member->value_end - member->value_begin));
}

TEST(JsonScan, FindsMembersOfEveryKind) {
  const std::string_view json =
      R"( {"a" : 1 , "b":"x\"},{", "c":{"a":[{}]},"d":[1,{"a":2}] ,"e":true,"f":-1.5e3})";
  EXPECT_EQ(value_of(json, "a"), "1");
  EXPECT_EQ(value_of(json, "b"), R"("x\"},{")");
  EXPECT_EQ(value_of(json, "c"), R"({"a":[{}]})");
  EXPECT_EQ(value_of(json, "d"), R"([1,{"a":2}])");
  EXPECT_EQ(value_of(json, "e"), "true");
  EXPECT_EQ(value_of(json, "f"), "-1.5e3");
  EXPECT_EQ(value_of(json, "g"), "(none)");
}

TEST(JsonScan, TheLastOfEqualKeysAndEscapedKeys) {
  EXPECT_EQ(value_of(R"({"a":1,"\u0061":2})", "a"), "2");
  EXPECT_EQ(value_of(R"({"a":1,"\u00e1":2})", "a"), "1");
  EXPECT_EQ(value_of(R"({"\/":1})", "/"), "1");
  EXPECT_EQ(value_of(R"({"a\\":1})", "a"), "(none)");
}

TEST(JsonScan, BrokenTextsAreWalkedInsideTheirBounds) {
  const std::string_view json = R"({"a":"\u12","b":[{"c":"d\"}],"e\u00)";
  for (std::size_t end = 0; end <= json.size(); ++end) {
    const auto cut = json.substr(0, end);
    (void)value_of(cut, "b");
    (void)with_representable_numbers(cut);
    EXPECT_LE(skip_value(cut, 0), cut.size());
  }
}

TEST(RepresentableNumbers, OnlyNumbersThatNothingHoldsAreReplaced) {
  const std::string_view fine =
      R"({"a":[0,-1,18446744073709551615,-9223372036854775808,1.5,2e308e,"1e999","\"1e999"]})";
  EXPECT_EQ(with_representable_numbers(R"([1,-1,18446744073709551615,1.7e308,"1e999","\"1e999"])"),
            R"([1,-1,18446744073709551615,1.7e308,"1e999","\"1e999"])");
  EXPECT_EQ(with_representable_numbers("[1e999,-1e999,1e-999,18446744073709551616]"),
            "[1e308,-1e308,0.0,1e30]");
  EXPECT_NE(with_representable_numbers(fine), fine) << "2e308 is too large";
  EXPECT_EQ(with_representable_numbers("[007,1.,-,.5,1e]"), "[007,1.,-,.5,1e]")
      << "not numbers: left to the parser";
}

}  // namespace
}  // namespace tailrace::gateway
