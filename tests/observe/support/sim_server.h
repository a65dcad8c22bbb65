// HTTP servers in memory and in virtual time, whose answers a test chooses.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tailrace/net/http_server.h"
#include "tailrace/net/sim_network.h"
#include "tailrace/observe/source.h"

namespace tailrace::observe::test {

struct Request {
  net::RequestHead head;
  std::map<std::string, std::string> form;  ///< decoded, of the body or the target
  double time_s = 0;                        ///< virtual
};

inline const net::Endpoint kPrometheusAt{"prometheus", 9090, false};

class SimServers : public testing::Test {
 protected:
  SimServers() : network(loop, 1) {}
  void TearDown() override;

  using Answer = std::function<void(const Request&, net::Exchange&)>;
  /// What this server does with each request; what it was asked is in `requests`.
  void serve(const net::Endpoint& at, Answer answer);
  void close(const net::Endpoint& at) { servers_.erase(at); }
  std::vector<Request> requests;
  /// Exchanges that nobody answers.
  std::vector<std::shared_ptr<net::Exchange>> held;

  double now_s() const { return to_seconds(loop.now()); }
  /// One fetch, to its end.
  Fetched fetch_whole(Source& source, double now_s, const Wanted& wanted);

  net::SimLoop loop;
  net::SimNetwork network;

 private:
  std::map<net::Endpoint, std::unique_ptr<net::HttpServer>> servers_;
};

/// {"status":"success",…} with this result.
std::string success(const std::string& type, const std::string& result);
void respond(net::Exchange& exchange, int status, const std::string& body,
             const std::string& content_type = "application/json");

}  // namespace tailrace::observe::test
