// Is each engine alive?
//
// Asks every watched backend in turn and counts answers in a row; connections that fail under real
// traffic count as well. A backend becomes unhealthy after `unhealthy_after` failures in a row (a
// new one after its first) and healthy again after `healthy_after` probes in a row. Each successful
// probe also fetches the engine's model list. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/backends.h"
#include "tailrace/core/unique_function.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/http_client.h"

namespace tailrace::gateway {

struct HealthOptions {
  Duration interval = std::chrono::seconds(2);
  Duration timeout = std::chrono::seconds(2);
  int unhealthy_after = 3;
  int healthy_after = 1;
};

class HealthChecker {
 public:
  using OnChange = UniqueFunction<void(const Backend&)>;

  /// `on_change` runs after a backend's `healthy` or `confirmed` changed, and after its first model
  /// list.
  HealthChecker(net::EventLoop& loop, net::HttpClient& client, HealthOptions options,
                OnChange on_change);
  ~HealthChecker();

  /// Probes at once, then every interval, until unwatched. Watching again starts from new.
  void watch(std::shared_ptr<Backend> backend);
  void unwatch(std::string_view name);

  /// Real traffic met a backend that refuses, resets or does not answer.
  void passive_failure(std::string_view name, std::string_view error);
  void passive_success(std::string_view name);

 private:
  struct Watch;
  void probe(Watch& watch);
  void probe_ended(Watch& watch, bool ok, std::string error);
  void fetch_models(Watch& watch);
  void fail_once(Watch& watch, std::string_view error);
  void succeed_once(Watch& watch);
  void schedule(Watch& watch);
  std::unique_ptr<net::Call> get(Watch& watch, std::string target,
                                 UniqueFunction<void(Result<std::string>)> done);

  net::EventLoop& loop_;
  net::HttpClient& client_;
  HealthOptions options_;
  OnChange on_change_;
  std::map<std::string, std::unique_ptr<Watch>, std::less<>> watches_;
};

}  // namespace tailrace::gateway
