// What does a whole gateway do in virtual time, between scripted engines and clients?
//
// A World holds a SimLoop, a SimNetwork, engines whose every answer a test scripts, a Gateway with
// inline workers and a predictor that says what the test tells it, and clients that read, wait,
// stall or leave.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/gateway/gateway.h"
#include "tailrace/net/http_client.h"
#include "tailrace/net/http_server.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::gateway::testing {

/// A request as an engine sees it, with the means to answer it.
struct EngineRequest {
  net::RequestHead head;
  std::string body;
  std::shared_ptr<net::Exchange> exchange;
  bool gone = false;  ///< the gateway closed the connection
  MonoTime gone_at{};

  void begin_events();  ///< 200 and text/event-stream
  void event(std::string_view content);
  void usage(int completion_tokens);
  void done();  ///< [DONE] and the end
  void whole(int completion_tokens, std::string_view finish_reason = "stop");
  void status(int code, net::Headers headers = {}, std::string body = "{\"busy\":true}");
};

class Engine {
 public:
  using Script = std::function<void(EngineRequest&)>;
  Engine(net::SimLoop& loop, net::SimNetwork& network, std::uint16_t port);

  void start();  ///< listens; may follow a kill()
  void kill();   ///< every connection closes, further ones are refused
  /// Called for each request that is not a probe. Without a script requests stay unanswered.
  void script(Script script) { script_ = std::move(script); }

  std::string url() const { return "http://10.0.0.1:" + std::to_string(endpoint_.port); }
  const net::Endpoint& endpoint() const { return endpoint_; }
  int open_requests() const;  ///< not answered completely and not closed by the gateway

  std::vector<std::shared_ptr<EngineRequest>> requests;
  int probes = 0;
  int health_status = 200;
  std::string models =
      R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"engine"}]})";

 private:
  void handle(std::shared_ptr<net::Exchange> exchange);

  net::SimLoop& loop_;
  net::SimNetwork& network_;
  net::Endpoint endpoint_;
  std::unique_ptr<net::HttpServer> server_;
  Script script_;
};

/// An answer as a client sees it, while it grows. Destroying it, or leave(), closes the connection.
struct Reply {
  net::ResponseHead head;
  std::string body;
  bool has_head = false;
  bool ended = false;
  std::optional<net::CallError> error;
  std::unique_ptr<net::Call> call;

  void leave() { call.reset(); }
  int status() const { return has_head ? head.status : 0; }
  std::string header(std::string_view name) const {
    return std::string(head.headers.find(name).value_or(""));
  }
};

/// What the test's predictor says and hears.
struct Oracle {
  std::function<std::optional<predict::Prediction>(const predict::RequestFeatures&)> says;
  std::vector<predict::Influence> because;
  struct Heard {
    predict::RequestFeatures features;
    predict::Observation observation;
  };
  std::vector<Heard> heard;
};

class World {
 public:
  explicit World(std::uint64_t seed = 1);
  ~World();

  Engine& add_engine(const std::string& name, int slots = 4,
                     std::vector<std::string> models = {"m"});
  /// Starts the gateway with `config` and the engines added so far, and waits for the first probes.
  void start();
  void stop();  ///< destroys the gateway

  std::shared_ptr<Reply> send(std::string method, std::string target, std::string body = {},
                              net::Headers headers = {}, bool admin = false);
  std::shared_ptr<Reply> chat(std::string extra = "", net::Headers headers = {});
  std::shared_ptr<Reply> stream(std::string extra = "", net::Headers headers = {});
  std::shared_ptr<Reply> admin(std::string method, std::string target, std::string body = {},
                               net::Headers headers = {});
  void run(Duration duration) { loop.run_for(duration); }

  dispatch::PoolView pool(std::string_view model = "m") const;
  bool idle() const;  ///< nothing waits, runs or is open at any engine

  net::SimLoop loop;
  net::SimNetwork network;
  Config config;
  Oracle oracle;
  std::unique_ptr<Gateway> gateway;
  std::map<std::string, std::unique_ptr<Engine>> engines;

 private:
  std::unique_ptr<net::HttpClient> client_;
};

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace tailrace::gateway::testing
