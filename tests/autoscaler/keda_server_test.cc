// KEDA's side of the wire: a gRPC client of the same protocol.
#include <externalscaler.grpc.pb.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "autoscaler/support/keda_record.h"
#include "tailrace/autoscaler/keda.h"

namespace tailrace::autoscaler {
namespace {

using ::testing::HasSubstr;
using testing::record_of;

struct Keda : ::testing::Test {
  KedaBoard board;
  std::unique_ptr<KedaServer> server;
  std::unique_ptr<externalscaler::ExternalScaler::Stub> stub;

  void serve(const KedaServerLimits& limits = {}) {
    auto listening = KedaServer::listen({"127.0.0.1", 0, false}, board, limits);
    ASSERT_TRUE(listening.has_value()) << listening.error().message;
    server = std::move(*listening);
    stub = externalscaler::ExternalScaler::NewStub(
        grpc::CreateChannel(net::to_string(server->local()), grpc::InsecureChannelCredentials()));
  }
  static void limit(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  static externalscaler::ScaledObjectRef object(const std::string& name) {
    externalscaler::ScaledObjectRef ref;
    ref.set_name(name);
    ref.set_namespace_("llm");
    return ref;
  }
  grpc::Status metrics(const externalscaler::ScaledObjectRef& ref,
                       externalscaler::GetMetricsResponse& answer) {
    grpc::ClientContext context;
    limit(context);
    externalscaler::GetMetricsRequest request;
    *request.mutable_scaledobjectref() = ref;
    request.set_metricname("tailrace-desired-replicas");
    return stub->GetMetrics(&context, request, &answer);
  }
  grpc::Status active(const externalscaler::ScaledObjectRef& ref, bool& result) {
    grpc::ClientContext context;
    limit(context);
    externalscaler::IsActiveResponse answer;
    const auto status = stub->IsActive(&context, ref, &answer);
    result = answer.result();
    return status;
  }
};

TEST_F(Keda, AsksForAsManyReplicasAsAreWanted) {
  serve();
  board.record(record_of(7), true);
  grpc::ClientContext context;
  limit(context);
  externalscaler::GetMetricSpecResponse spec;
  ASSERT_TRUE(stub->GetMetricSpec(&context, object("a"), &spec).ok());
  ASSERT_EQ(spec.metricspecs_size(), 1);
  EXPECT_EQ(spec.metricspecs(0).targetsize(), 1);
  externalscaler::GetMetricsResponse answer;
  ASSERT_TRUE(metrics(object("a"), answer).ok());
  ASSERT_EQ(answer.metricvalues_size(), 1);
  EXPECT_EQ(answer.metricvalues(0).metricvalue(), 7);
  EXPECT_EQ(answer.metricvalues(0).metricvaluefloat(), 7);
  EXPECT_EQ(answer.metricvalues(0).metricname(), spec.metricspecs(0).metricname());
}

TEST_F(Keda, IsActiveWhileAReplicaIsWanted) {
  serve();
  bool result = false;
  board.record(record_of(1), true);
  ASSERT_TRUE(active(object("a"), result).ok());
  EXPECT_TRUE(result);
  board.record(record_of(0), true);
  ASSERT_TRUE(active(object("a"), result).ok());
  EXPECT_FALSE(result);
}

TEST_F(Keda, TheTriggerMayNameTheVariant) {
  serve();
  board.record(record_of(4), true);
  auto ref = object("some-scaled-object");
  (*ref.mutable_scalermetadata())["variantName"] = "a";
  externalscaler::GetMetricsResponse answer;
  ASSERT_TRUE(metrics(ref, answer).ok());
  EXPECT_EQ(answer.metricvalues(0).metricvalue(), 4);
}

TEST_F(Keda, WhatIsNotKnownIsAnErrorAndNeverZero) {
  serve();
  externalscaler::GetMetricsResponse answer;
  EXPECT_EQ(metrics(object("a"), answer).error_code(), grpc::StatusCode::UNAVAILABLE);
  board.record(record_of(0, false), true);
  EXPECT_EQ(metrics(object("a"), answer).error_code(), grpc::StatusCode::UNAVAILABLE);
  bool result = true;
  EXPECT_EQ(active(object("a"), result).error_code(), grpc::StatusCode::UNAVAILABLE);
  const auto status = metrics(object("b"), answer);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("no variant \"b\" in namespace \"llm\""));
  EXPECT_EQ(answer.metricvalues_size(), 0);
}

// A Service sends KEDA to either instance: the one that only thinks along must not answer for it.
TEST_F(Keda, AnInstanceThatDoesNotLeadIsAnErrorAndNeverZero) {
  serve();
  board.record(record_of(5), false);
  externalscaler::GetMetricsResponse answer;
  bool result = true;
  EXPECT_EQ(metrics(object("a"), answer).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(active(object("a"), result).error_code(), grpc::StatusCode::UNAVAILABLE);
  // It takes over, and knows too little yet.
  board.record(record_of(0, false), true);
  EXPECT_EQ(metrics(object("a"), answer).error_code(), grpc::StatusCode::UNAVAILABLE);
  board.record(record_of(5), true);
  EXPECT_TRUE(metrics(object("a"), answer).ok());
  board.record(record_of(5), false);
  EXPECT_EQ(metrics(object("a"), answer).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(Keda, AConnectionToAnInstanceThatDoesNotLeadEndsAndComesBackWithTheLead) {
  serve();
  const auto lead = [this](bool leads) {
    board.record(record_of(4), leads);
    const auto served = server->serve(leads);
    ASSERT_TRUE(served.has_value()) << served.error().message;
  };
  externalscaler::GetMetricsResponse answer;
  lead(true);
  ASSERT_TRUE(metrics(object("a"), answer).ok());
  grpc::ClientContext context;
  limit(context);
  const auto stream = stub->StreamIsActive(&context, object("a"));
  externalscaler::IsActiveResponse first;
  ASSERT_TRUE(stream->Read(&first));
  lead(false);
  EXPECT_FALSE(stream->Read(&first)) << "the stream has ended";
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  lead(false);
  const auto fresh =
      grpc::CreateCustomChannel(net::to_string(server->local()), grpc::InsecureChannelCredentials(),
                                grpc::ChannelArguments());
  EXPECT_FALSE(
      fresh->WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(200)))
      << "nobody listens";
  lead(true);
  lead(true);
  stub = externalscaler::ExternalScaler::NewStub(fresh);
  EXPECT_TRUE(fresh->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  answer.Clear();
  ASSERT_TRUE(metrics(object("a"), answer).ok());
  EXPECT_EQ(answer.metricvalues(0).metricvalue(), 4);
}

TEST_F(Keda, AStreamTellsEachChangeOfActivityOnce) {
  serve();
  board.record(record_of(0), true);
  grpc::ClientContext context;
  limit(context);
  const auto stream = stub->StreamIsActive(&context, object("a"));
  externalscaler::IsActiveResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_FALSE(answer.result());
  board.record(record_of(0), true);
  board.record(record_of(2), true);
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.result());
  board.record({}, true);
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(Keda, StreamsAreBounded) {
  KedaServerLimits limits;
  limits.streams_max = 2;
  serve(limits);
  board.record(record_of(1), true);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<externalscaler::IsActiveResponse>>> streams;
  externalscaler::IsActiveResponse answer;
  for (int i = 0; i < 2; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    limit(*contexts.back());
    streams.push_back(stub->StreamIsActive(contexts.back().get(), object("a")));
    ASSERT_TRUE(streams.back()->Read(&answer));
  }
  grpc::ClientContext one_more;
  limit(one_more);
  const auto refused = stub->StreamIsActive(&one_more, object("a"));
  EXPECT_FALSE(refused->Read(&answer));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& stream : streams) stream->Finish();
}

TEST_F(Keda, EndsWhileAStreamIsOpen) {
  serve();
  board.record(record_of(1), true);
  grpc::ClientContext context;
  limit(context);
  const auto stream = stub->StreamIsActive(&context, object("a"));
  externalscaler::IsActiveResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  server.reset();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(Keda, AnAddressInUseIsSaid) {
  serve();
  const auto second = KedaServer::listen(server->local(), board);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace tailrace::autoscaler
