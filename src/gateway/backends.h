// Which engines stand behind the gateway, where are they, and are they well?
//
// The table holds what the relay needs beyond the dispatcher's counts: address, key, health, and
// the model list that the engine gave. Entries are shared, so that a stream keeps its backend's
// data after the backend was removed. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/backend_pace.h"
#include "tailrace/gateway/config.h"
#include "tailrace/net/stream.h"

namespace tailrace::gateway {

struct Backend {
  std::string name;
  net::Url url;
  std::vector<std::string> models;
  int slots = 1;
  Secret api_key;
  bool ask_usage = true;    ///< ask for usage where the client did not
  std::string health_path;  ///< below the URL's prefix without "/v1"

  bool healthy = true;  ///< what the dispatcher is told; a new backend has the benefit of the doubt
  bool confirmed = false;   ///< a probe has succeeded since it was last unhealthy
  std::string last_error;   ///< of the last failed probe or connection
  std::string models_json;  ///< the `data` array of its /v1/models, "" while unknown
  std::shared_ptr<BackendPace> pace;
};

class Backends {
 public:
  void put(std::shared_ptr<Backend> backend) { table_[backend->name] = std::move(backend); }
  bool remove(std::string_view name);
  std::shared_ptr<Backend> find(std::string_view name) const;
  /// By name, so that every listing has one order.
  std::vector<std::shared_ptr<Backend>> all() const;
  bool any_ready() const;  ///< at least one is healthy by a probe
  /// Of a backend that is about to be put. The one that it had, where streams that began before it
  /// was removed are still on their way: they are part of the batch.
  std::shared_ptr<BackendPace> pace_of(const std::string& name, const net::Endpoint& endpoint);

 private:
  std::map<std::string, std::shared_ptr<Backend>, std::less<>> table_;
  std::map<std::pair<std::string, net::Endpoint>, std::weak_ptr<BackendPace>> paces_;
};

}  // namespace tailrace::gateway
