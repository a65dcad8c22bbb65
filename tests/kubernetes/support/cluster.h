// What do tests of the client have in common? A fake API server, a client of it, virtual time.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "kubernetes/support/fake_api.h"
#include "tailrace/core/calendar.h"

namespace tailrace::kubernetes::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline Fault failing(int status, std::optional<int> retry_after_s = std::nullopt) {
  Fault fault;
  fault.status = status;
  fault.body = R"({"kind":"Status","status":"Failure","message":"not now"})";
  fault.retry_after_s = retry_after_s;
  return fault;
}

class ClusterTest : public ::testing::Test {
 protected:
  void run(Duration duration) { loop.run_for(duration); }

  /// Waits, in virtual time, for what `start` starts.
  template <class T, class Start>
  Result<T> wait(Start&& start) {
    std::optional<Result<T>> result;
    const auto call = start([&](Result<T> done) { result = std::move(done); });
    run(seconds(120));
    EXPECT_TRUE(result.has_value()) << "no answer within two minutes";
    return result ? std::move(*result) : fail(ErrorCode::kInternal, "no answer");
  }
  Result<ApiAnswer> send(ApiRequest request) {
    return wait<ApiAnswer>(
        [&](auto done) { return api->send(std::move(request), std::move(done)); });
  }
  Result<ApiAnswer> get(const std::string& path) {
    ApiRequest request;
    request.path = path;
    return send(std::move(request));
  }
  Result<std::vector<std::string>> list(const std::string& path) {
    return wait<std::vector<std::string>>(
        [&](auto done) { return api->list(path, std::move(done)); });
  }

  net::SimLoop loop;
  net::SimNetwork network{loop, 1};
  FakeApi server{loop, network};
  ManualCalendar calendar{1'800'000'000};
  std::unique_ptr<Api> api = Api::make(loop, network, server.access());
};

}  // namespace tailrace::kubernetes::testing
