#include "tailrace/net/whole_answer.h"

#include <gmock/gmock.h>

#include <optional>

#include "net/support/server_fixture.h"

namespace tailrace::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class WholeAnswerTest : public test::ServerTest {
 protected:
  WholeAnswerTest() : client(HttpClient::make(loop, network)) {}

  void ask(const std::string& body = "") {
    RequestHead head{body.empty() ? "GET" : "POST", "/a", 1, {}};
    question = ask_whole(loop, *client, test::kServerAt, std::move(head),
                         body.empty() ? nullptr : std::make_shared<const std::string>(body), bounds,
                         [this](Result<WholeAnswer> result) {
                           EXPECT_FALSE(answer) << "answered twice";
                           answer = std::move(result);
                           question.reset();
                         });
    EXPECT_FALSE(answer) << "answered inside the call";
    run(100ms);
  }
  Error error() {
    EXPECT_TRUE(answer && !*answer);
    return answer && !*answer ? answer->error() : Error{};
  }
  void TearDown() override {
    question.reset();
    client.reset();
    ServerTest::TearDown();
  }

  std::unique_ptr<HttpClient> client;
  AnswerBounds bounds{2s, 100};
  std::unique_ptr<Question> question;
  std::optional<Result<WholeAnswer>> answer;
};

TEST_F(WholeAnswerTest, IsOneWithItsStatusAndBody) {
  serve_echo();
  ask("hello");
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ((*answer)->head.status, 200);
  EXPECT_EQ((*answer)->body, "/a|hello");
}

TEST_F(WholeAnswerTest, AsksForNoCompressionAndTakesNone) {
  serve([](const std::shared_ptr<Exchange>& exchange) {
    EXPECT_EQ(exchange->head().headers.find("accept-encoding"), "identity");
    exchange->respond({200, "", {{"Content-Encoding", "br"}}}, "?");
  });
  ask();
  EXPECT_EQ(error().code, ErrorCode::kUnsupported);
}

TEST_F(WholeAnswerTest, EndsAtTheBoundWithAndWithoutALength) {
  serve([](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond({200, "", {}}, std::string(101, 'x'));
  });
  ask();
  EXPECT_EQ(error().code, ErrorCode::kResourceExhausted);
  server.reset();
  serve([](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin({200, "", {}});
    exchange->write(std::string(60, 'x'));
    exchange->write(std::string(60, 'x'));
    exchange->finish();
  });
  answer.reset();
  ask();
  EXPECT_THAT(error().message, HasSubstr("100 bytes"));
}

TEST_F(WholeAnswerTest, EndsAtTheTimeOutHoweverTheAnswerDrips) {
  serve_and_hold();
  ask();
  held.at(0)->begin({200, "", {}});
  for (int i = 0; i < 30; ++i) {
    if (!answer) held.at(0)->write("x");
    run(100ms);
  }
  EXPECT_EQ(error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error().message, HasSubstr("server:80: no whole answer within 2 s"));
  EXPECT_TRUE(held.at(0)->client_gone()) << "the server learns of it";
}

TEST_F(WholeAnswerTest, TellsWhatCutIt) {
  ask();
  EXPECT_EQ(error().code, ErrorCode::kUnavailable) << "nobody listens";
  serve([](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin({200, "", {}}, 50);
    exchange->write("half");
    exchange->abort();
  });
  answer.reset();
  ask();
  EXPECT_EQ(error().code, ErrorCode::kUnavailable);
}

TEST_F(WholeAnswerTest, ACancelledQuestionIsNeverAnswered) {
  serve_and_hold();
  ask();
  question.reset();
  run(10s);
  EXPECT_FALSE(answer);
  EXPECT_TRUE(held.at(0)->client_gone());
}

}  // namespace
}  // namespace tailrace::net
