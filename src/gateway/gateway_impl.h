// How are the gateway's parts wired together? Private to gateway.cc and its neighbours.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/admin.h"
#include "gateway/context.h"
#include "gateway/passthrough.h"
#include "gateway/request.h"
#include "tailrace/gateway/gateway.h"
#include "tailrace/net/http_server.h"

namespace tailrace::gateway {

struct Gateway::Impl final : AdminActions {
  Impl(Config config_in, net::EventLoop& loop_in, net::Network& network,
       dispatch::Dispatcher dispatcher_in, GatewayParts parts);
  ~Impl() override;

  // gateway.cc: listeners, routes and the hand-out of slots.
  Result<void> listen(net::Network& network);
  void handle(std::shared_ptr<net::Exchange> exchange);
  void models(net::Exchange& exchange);
  void pump();
  void forget(JobId id);
  JobId next_id() { return JobId(++last_id); }
  std::string request_id_for(const net::Exchange& exchange, JobId id);
  std::size_t active() const { return requests.size() + passthroughs.size(); }

  // gateway_backends.cc
  Result<void> put_backend(const BackendConfig& backend) override;
  Result<void> remove_backend(std::string_view name) override;
  void tell_waiting();
  void health_changed(const Backend& backend);
  void refresh_gauges() override;
  bool ready() const;

  // gateway_policy.cc: which order is in force, and predictions on request.
  Result<void> set_policy(std::string_view name) override;
  PolicyState policy() const override;
  void saw_prediction(bool calibrated);
  void apply_policy();
  void predict(predict::RequestFeatures features,
               UniqueFunction<void(Result<ExplainedPrediction>)> done) override;
  void prediction_arrived(JobId id, const predict::Prediction& prediction);
  void explanation_arrived(JobId id, const ExplainedPrediction& result);

  // gateway_drain.cc
  void begin_drain(UniqueFunction<void(bool)> done);
  void refuse_new_work();
  void drain_limit_reached();
  void cut_everything();
  void watch_drain();

  // Declared in the order of need: what stands later uses what stands earlier and goes first.
  Config config;
  net::EventLoop& loop;
  std::unique_ptr<net::HttpClient> client;
  dispatch::Dispatcher dispatcher;
  Backends backends;
  Metrics metrics;
  History history;
  std::unique_ptr<BodyReader> big_bodies;
  std::unique_ptr<PredictionRunner> prediction;
  std::unique_ptr<HealthChecker> health;
  std::unique_ptr<Context> context;
  std::unique_ptr<AdminApi> admin;

  std::uint64_t last_id = 0;
  std::map<JobId, std::shared_ptr<GenerationRequest>> requests;
  std::map<JobId, std::shared_ptr<Passthrough>> passthroughs;
  std::unique_ptr<net::HttpServer> public_server;
  std::unique_ptr<net::HttpServer> admin_server;

  bool pumping = false;
  bool pump_again = false;
  std::unique_ptr<net::Timer> wake_timer;

  std::string configured_policy;
  std::string effective_policy;
  bool law_trusted = false;  ///< calibrated laws (or given ones) arrive
  int uncalibrated_in_row = 0;
  std::uint64_t dropped_seen = 0;  ///< of the runner's count, already in the metric

  struct AskedPrediction {
    UniqueFunction<void(Result<ExplainedPrediction>)> done;
    std::unique_ptr<net::Timer> deadline;
  };
  std::map<JobId, AskedPrediction> asked_predictions;

  bool leaving = false;  ///< a drain has begun: not ready
  bool cut_any = false;
  UniqueFunction<void(bool)> drained;
  std::unique_ptr<net::Timer> notice_timer;
  std::unique_ptr<net::Timer> limit_timer;
  std::unique_ptr<net::Timer> drain_watch;
};

}  // namespace tailrace::gateway
