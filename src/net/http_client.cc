#include "tailrace/net/http_client.h"

#include <vector>

#include "net/client_call.h"

namespace tailrace::net {
namespace {

class CallHandle final : public Call {
 public:
  explicit CallHandle(std::shared_ptr<ClientCall> call) : call_(std::move(call)) {}
  ~CallHandle() override { call_->cancel(); }
  void pause() override { call_->pause(); }
  void resume() override { call_->resume(); }

 private:
  std::shared_ptr<ClientCall> call_;
};

std::string host_header(const Endpoint& to) {
  const bool usual = to.port == (to.tls ? 443 : 80);
  std::string text = to_string(to);
  if (usual) text.resize(text.rfind(':'));
  return text;
}

/// Framing belongs to the connection: whatever the caller's head says of it is replaced.
std::string prepare(const Endpoint& to, RequestHead& head, const std::string* body) {
  Headers headers;
  if (!head.headers.find("host")) headers.add("Host", host_header(to));
  for (const Header& header : head.headers) headers.add(header.name, header.value);
  head.headers = std::move(headers);
  head.headers.remove("transfer-encoding");
  head.headers.remove("content-length");
  head.headers.remove("expect");  // the body follows at once
  head.minor_version = 1;
  const bool expects_body = head.method == "POST" || head.method == "PUT" || head.method == "PATCH";
  if (body != nullptr || expects_body) {
    head.headers.add("Content-Length", std::to_string(body != nullptr ? body->size() : 0));
  }
  return serialize(head);
}

class ClientImpl final : public HttpClient {
 public:
  ClientImpl(EventLoop& loop, Network& network, ClientOptions options)
      : core_(loop, network, options) {}
  ~ClientImpl() override {
    while (!core_.calls.empty()) (*core_.calls.begin())->cancel();
  }

  std::unique_ptr<Call> start(const Endpoint& to, RequestHead head,
                              std::shared_ptr<const std::string> body, CallTimeouts timeouts,
                              CallHandlers handlers) override {
    std::string bytes = prepare(to, head, body.get());
    auto call = std::make_shared<ClientCall>(core_, to, std::move(bytes), std::move(head.method),
                                             std::move(body), timeouts, std::move(handlers));
    call->start();
    return std::make_unique<CallHandle>(std::move(call));
  }

  void forget(const Endpoint& endpoint) override { core_.pool.forget(endpoint); }

 private:
  ClientCore core_;
};

}  // namespace

std::unique_ptr<HttpClient> HttpClient::make(EventLoop& loop, Network& network,
                                             ClientOptions options) {
  return std::make_unique<ClientImpl>(loop, network, options);
}

}  // namespace tailrace::net
