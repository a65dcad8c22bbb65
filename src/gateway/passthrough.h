// How are the endpoints relayed that generate nothing worth queueing (embeddings, tokenize, …)?
//
// At once, to the healthy backend of the request's model with the least to do, or to any where the
// request names no model. No slot is taken and nothing is learned. Owned by the gateway until it
// ends. Loop thread.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "gateway/answer_relay.h"
#include "gateway/context.h"
#include "gateway/error_body.h"
#include "tailrace/net/http_server.h"

namespace tailrace::gateway {

class Passthrough : public std::enable_shared_from_this<Passthrough> {
 public:
  Passthrough(Context& context, JobId id, std::string request_id,
              std::shared_ptr<net::Exchange> exchange);
  void start();
  void shut_down();

 private:
  void body_arrived(Result<std::string> body);
  void choose_and_send();
  std::shared_ptr<Backend> choose() const;
  void send(std::shared_ptr<Backend> backend);
  void failed(const net::CallError& error);
  void refuse(int status, std::string_view message, std::string_view code, RequestOutcome outcome);
  void end(RequestOutcome outcome, int status);

  Context& context_;
  const JobId id_;
  const std::string request_id_;
  const std::shared_ptr<net::Exchange> exchange_;
  const MonoTime arrival_;
  std::string model_;
  std::shared_ptr<const std::string> body_;
  std::size_t held_bytes_ = 0;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<net::Call> call_;
  std::optional<AnswerRelay> relay_;
  std::set<std::string, std::less<>> failed_backends_;
  bool ended_ = false;
};

}  // namespace tailrace::gateway
