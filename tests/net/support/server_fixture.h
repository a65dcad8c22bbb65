// A server on the in-memory network whose handler a test chooses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/support/sim_fixture.h"

namespace tailrace::net::test {

inline constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

class ServerTest : public SimTest {
 protected:
  void serve(HttpServer::Handler handler, ServerLimits limits = {});
  /// Answers "<target>|<body>", and what went wrong with the body with 400, 408 or 413.
  void serve_echo(ServerLimits limits = {});
  /// Keeps the exchanges that arrive in `held`.
  void serve_and_hold(ServerLimits limits = {});
  /// What a fresh connection receives for these bytes.
  std::string answer_to(std::string_view request);
  /// Nothing may be left open, whatever the test did.
  void TearDown() override;

  std::unique_ptr<HttpServer> server;
  std::vector<std::shared_ptr<Exchange>> held;
  int requests = 0;
};

}  // namespace tailrace::net::test
