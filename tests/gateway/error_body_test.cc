#include "gateway/error_body.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

namespace tailrace::gateway {
namespace {

TEST(ErrorBody, HasTheShapeThatClientsKnow) {
  EXPECT_EQ(
      error_body("no such model \"x\"", "not_found_error", "model_not_found", "model"),
      R"({"error":{"message":"no such model \"x\"","type":"not_found_error","code":"model_not_found","param":"model"}})");
  EXPECT_EQ(error_body("m", "server_error"),
            R"({"error":{"message":"m","type":"server_error","code":null,"param":null}})");
}

TEST(ErrorBody, IsValidJsonWhateverTheMessage) {
  const std::string odd("cut \xe4\xb8 \xff \xed\xa0\x80 \xf4\x90\x80\x80 \xc0\x80 世 \x01 \n \"",
                        29);
  const auto parsed = boost::json::parse(error_body(odd, "t"));
  const std::string message(parsed.at("error").at("message").as_string());
  EXPECT_NE(message.find("世"), std::string::npos);
  EXPECT_EQ(message.find('\xff'), std::string::npos);
}

TEST(ErrorBody, AnEventIsOneLineOfDataAndABlankOne) {
  EXPECT_EQ(error_event("a\nb", "server_error"),
            "data: "
            "{\"error\":{\"message\":\"a\\nb\",\"type\":\"server_error\",\"code\":null,\"param\":"
            "null}}\n\n");
}

TEST(ErrorBody, StatusesFollowTheCause) {
  EXPECT_EQ(error_answer(Error{ErrorCode::kInvalidArgument, "x"}).status, 400);
  EXPECT_EQ(error_answer(Error{ErrorCode::kDeadlineExceeded, "x"}).status, 504);
  EXPECT_EQ(error_answer(dispatch::Refusal::kUnknownModel, "x").status, 404);
  EXPECT_EQ(error_answer(dispatch::Refusal::kQueueFull, "x").status, 429);
  EXPECT_EQ(error_answer(dispatch::Refusal::kBytesFull, "x").status, 413);
  EXPECT_EQ(error_answer(dispatch::Refusal::kDeadline, "x").status, 429);
  EXPECT_EQ(error_answer(dispatch::Refusal::kDraining, "x").status, 503);
  EXPECT_EQ(error_answer(dispatch::Refusal::kTooManySlots, "x").status, 400);
  EXPECT_NE(error_answer(413, "x").body.find("invalid_request_error"), std::string::npos);
  EXPECT_NE(error_answer(502, "x").body.find("server_error"), std::string::npos);
}

}  // namespace
}  // namespace tailrace::gateway
