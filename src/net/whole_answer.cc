#include "tailrace/net/whole_answer.h"

#include <charconv>

#include "tailrace/core/text.h"

namespace tailrace::net {
namespace {

using Done = UniqueFunction<void(Result<WholeAnswer>)>;

class WholeCall final : public Question {
 public:
  WholeCall(const AnswerBounds& bounds, Done done) : bounds_(bounds), done_(std::move(done)) {}

  void start(EventLoop& loop, HttpClient& client, const Endpoint& to, RequestHead head,
             std::shared_ptr<const std::string> body) {
    if (!head.headers.find("accept-encoding")) head.headers.add("Accept-Encoding", "identity");
    name_ = to_string(to);
    timer_ = loop.after(bounds_.timeout, [this] {
      finish(fail(ErrorCode::kDeadlineExceeded,
                  name_ + ": no whole answer within " + seconds(bounds_.timeout)));
    });
    CallHandlers handlers;
    handlers.on_head = [this](ResponseHead answer) { take(std::move(answer)); };
    handlers.on_body = [this](std::string_view bytes) { take(bytes); };
    handlers.on_end = [this] { finish(std::move(answer_)); };
    handlers.on_error = [this](CallError error) { finish(fail(std::move(error.error))); };
    call_ = client.start(to, std::move(head), std::move(body),
                         {.connect = bounds_.timeout, .first_byte = {}, .idle = {}},
                         std::move(handlers));
  }

 private:
  static std::string seconds(Duration duration) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, to_seconds(duration)).ptr;
    return std::string(text, end) + " s";
  }

  void take(ResponseHead head) {
    answer_.head = std::move(head);
    const auto coding = answer_.head.headers.find("content-encoding");
    if (coding && !core::iequals(core::trim(*coding), "identity")) {
      return finish(fail(ErrorCode::kUnsupported, name_ + ": the answer came compressed (" +
                                                      core::quoted(*coding) +
                                                      ") though no compression was asked for"));
    }
    const auto length = answer_.head.headers.find("content-length");
    const auto bytes = length ? core::parse_int(*length) : std::nullopt;
    if (bytes && static_cast<std::uint64_t>(*bytes) > bounds_.body_bytes_max) too_large();
  }

  void take(std::string_view bytes) {
    if (bytes.size() > bounds_.body_bytes_max - answer_.body.size()) return too_large();
    answer_.body.append(bytes);
  }

  void too_large() {
    finish(fail(ErrorCode::kResourceExhausted, name_ + ": the answer is longer than the bound of " +
                                                   std::to_string(bounds_.body_bytes_max) +
                                                   " bytes"));
  }

  /// The last thing that happens here: `done` may destroy this object.
  void finish(Result<WholeAnswer> result) {
    timer_.reset();
    call_.reset();
    Done done = std::move(done_);
    done(std::move(result));
  }

  const AnswerBounds bounds_;
  Done done_;
  std::string name_;
  WholeAnswer answer_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<Call> call_;
};

}  // namespace

std::unique_ptr<Question> ask_whole(EventLoop& loop, HttpClient& client, const Endpoint& to,
                                    RequestHead head, std::shared_ptr<const std::string> body,
                                    const AnswerBounds& bounds, Done done) {
  auto call = std::make_unique<WholeCall>(bounds, std::move(done));
  call->start(loop, client, to, std::move(head), std::move(body));
  return call;
}

}  // namespace tailrace::net
