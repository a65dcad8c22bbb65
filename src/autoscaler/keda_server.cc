#include <externalscaler.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "tailrace/autoscaler/keda.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::string_view kMetric = "tailrace-desired-replicas";
constexpr Duration kLookUp = std::chrono::seconds(1);  // whether a stream's client has left

grpc::Status status_of(const Error& error) {
  const auto code = error.code == ErrorCode::kNotFound ? grpc::StatusCode::NOT_FOUND
                    : error.code == ErrorCode::kResourceExhausted
                        ? grpc::StatusCode::RESOURCE_EXHAUSTED
                        : grpc::StatusCode::UNAVAILABLE;
  return {code, core::valid_utf8(error.message)};
}

/// The variant that a ScaledObject is of: as its trigger says, else of its own name.
std::string variant_of(const externalscaler::ScaledObjectRef& ref) {
  const auto& metadata = ref.scalermetadata();
  for (const char* key : {"variantName", "variant_name"}) {
    const auto found = metadata.find(key);
    if (found != metadata.end() && !found->second.empty()) return found->second;
  }
  return ref.name();
}

class Service final : public externalscaler::ExternalScaler::Service {
 public:
  Service(KedaBoard& board, int streams_max) : board_(board), streams_max_(streams_max) {}

  grpc::Status IsActive(grpc::ServerContext*, const externalscaler::ScaledObjectRef* ref,
                        externalscaler::IsActiveResponse* answer) override {
    const auto desired = board_.desired(ref->namespace_(), variant_of(*ref));
    if (!desired) return status_of(desired.error());
    answer->set_result(*desired > 0);
    return grpc::Status::OK;
  }

  grpc::Status StreamIsActive(
      grpc::ServerContext* context, const externalscaler::ScaledObjectRef* ref,
      grpc::ServerWriter<externalscaler::IsActiveResponse>* writer) override {
    const Slot slot(streams_);
    if (slot.number > streams_max_) {
      return status_of({ErrorCode::kResourceExhausted,
                        fmt::format("{} streams are open, the most there may be", streams_max_)});
    }
    std::optional<bool> said;
    std::uint64_t version = 0;
    while (!context->IsCancelled() && !board_.closed() && !board_.passive()) {
      const auto desired = board_.desired(ref->namespace_(), variant_of(*ref));
      if (!desired && desired.error().code == ErrorCode::kNotFound) {
        return status_of(desired.error());
      }
      if (desired && said != (*desired > 0)) {
        externalscaler::IsActiveResponse answer;
        answer.set_result(*desired > 0);
        if (!writer->Write(answer)) break;
        said = *desired > 0;
      }
      version = board_.wait(version, kLookUp);
    }
    return {grpc::StatusCode::UNAVAILABLE, "the stream has ended; ask again"};
  }

  grpc::Status GetMetricSpec(grpc::ServerContext*, const externalscaler::ScaledObjectRef*,
                             externalscaler::GetMetricSpecResponse* answer) override {
    auto* spec = answer->add_metricspecs();
    spec->set_metricname(std::string(kMetric));
    spec->set_targetsize(1);
    spec->set_targetsizefloat(1);
    return grpc::Status::OK;
  }

  grpc::Status GetMetrics(grpc::ServerContext*, const externalscaler::GetMetricsRequest* request,
                          externalscaler::GetMetricsResponse* answer) override {
    const auto& ref = request->scaledobjectref();
    const auto desired = board_.desired(ref.namespace_(), variant_of(ref));
    if (!desired) return status_of(desired.error());
    auto* value = answer->add_metricvalues();
    value->set_metricname(std::string(kMetric));
    value->set_metricvalue(*desired);
    value->set_metricvaluefloat(static_cast<double>(*desired));
    return grpc::Status::OK;
  }

 private:
  /// One stream's place among all.
  struct Slot {
    explicit Slot(std::atomic<int>& c) : count(c), number(++c) {}
    ~Slot() { --count; }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    std::atomic<int>& count;
    int number;
  };

  KedaBoard& board_;
  int streams_max_;
  std::atomic<int> streams_{0};
};

class GrpcServer final : public KedaServer {
 public:
  GrpcServer(KedaBoard& board, const KedaServerLimits& limits)
      : board_(board), limits_(limits), service_(board, limits.streams_max) {}
  ~GrpcServer() override {
    board_.close();
    shut();
  }
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  Result<void> serve(bool leads) override {
    if (leads && !server_) return open(local_);
    if (!leads) shut();
    return {};
  }

  Result<void> open(const net::Endpoint& at) {
    net::Endpoint bound = at;
    if (bound.host.empty()) bound.host = "0.0.0.0";
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(net::to_string(bound), grpc::InsecureServerCredentials(), &port);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // an address in use is an error
    builder.SetMaxReceiveMessageSize(limits_.message_bytes_max);
    grpc::ResourceQuota quota("keda");
    quota.SetMaxThreads(limits_.threads_max);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) {
      server_.reset();
      return fail(ErrorCode::kUnavailable,
                  fmt::format("KEDA's listener cannot be opened at {}; is the address in use?",
                              net::to_string(at)));
    }
    local_ = bound;
    local_.port = static_cast<std::uint16_t>(port);
    log::info("keda_listening", {{"address", net::to_string(local_)}});
    return {};
  }
  net::Endpoint local() const override { return local_; }

 private:
  void shut() {
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_.reset();
    log::info("keda_closed", {{"address", net::to_string(local_)}});
  }

  KedaBoard& board_;
  KedaServerLimits limits_;
  Service service_;
  net::Endpoint local_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<KedaServer>> KedaServer::listen(const net::Endpoint& at, KedaBoard& board,
                                                       const KedaServerLimits& limits) {
  auto server = std::make_unique<GrpcServer>(board, limits);
  if (auto opened = server->open(at); !opened) return fail(opened.error());
  return server;
}

}  // namespace tailrace::autoscaler
