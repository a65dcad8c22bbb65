// What may an operator see and change while the gateway runs?
//
// The admin listener's routes. Answers are JSON (and the text format for /metrics). With a token
// configured every route but /healthz asks for it. Loop thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/context.h"
#include "tailrace/net/http_server.h"

namespace tailrace::gateway {

/// What the admin API asks the gateway to do.
class AdminActions {
 public:
  virtual ~AdminActions() = default;
  virtual Result<void> put_backend(const BackendConfig& backend) = 0;
  virtual Result<void> remove_backend(std::string_view name) = 0;
  virtual Result<void> set_policy(std::string_view name) = 0;
  struct PolicyState {
    std::string configured;
    std::string effective;
    std::string reason;  ///< why they differ; empty where they do not
  };
  virtual PolicyState policy() const = 0;
  /// `done` runs once with the prediction, or with an error if none comes.
  virtual void predict(predict::RequestFeatures features,
                       UniqueFunction<void(Result<ExplainedPrediction>)> done) = 0;
  virtual void refresh_gauges() = 0;
};

class AdminApi {
 public:
  AdminApi(Context& context, AdminActions& actions, Environment environment);
  void handle(const std::shared_ptr<net::Exchange>& exchange);

 private:
  void route(const std::shared_ptr<net::Exchange>& exchange, std::string_view path);
  void queue(net::Exchange& exchange);
  void backends(const std::shared_ptr<net::Exchange>& exchange, std::string_view name);
  void policy(const std::shared_ptr<net::Exchange>& exchange);
  void explain(net::Exchange& exchange, std::string_view request_id);
  void predict(const std::shared_ptr<net::Exchange>& exchange);
  bool authorized(const net::RequestHead& head) const;

  Context& context_;
  AdminActions& actions_;
  Environment environment_;
};

}  // namespace tailrace::gateway
