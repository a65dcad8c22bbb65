// What do a request, a list and a watch share? Private to src/kubernetes.
#pragma once

#include <memory>
#include <string>

#include "tailrace/core/rng.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

struct ApiCore {
  ApiCore(net::EventLoop& the_loop, net::Network& network, ApiAccess who, ApiConfig how);

  /// The head of a request, with the token that is in force now.
  net::RequestHead head(const std::string& method, const std::string& path);
  net::CallTimeouts timeouts(double answer_s) const;
  /// `attempt` from 0: twice as long each time up to `max_s`, ±20 %.
  Duration pause(double first_s, int attempt, double max_s);

  net::EventLoop& loop;
  const ApiAccess access;
  const ApiConfig config;
  std::unique_ptr<net::HttpClient> client;

 private:
  std::string token();

  std::string last_token_;
  bool token_missing_ = false;
  Rng rng_;
};

std::unique_ptr<ApiCall> start_send(std::shared_ptr<ApiCore> core, ApiRequest request,
                                    UniqueFunction<void(Result<ApiAnswer>)> done);

struct ListedObjects {
  std::vector<std::string> items;
  std::string resource_version;
};
std::unique_ptr<ApiCall> start_list(std::shared_ptr<ApiCore> core, std::string path,
                                    UniqueFunction<void(Result<ListedObjects>)> done);
std::unique_ptr<ApiCall> start_watch(std::shared_ptr<ApiCore> core, std::string path,
                                     WatchHandlers handlers);

/// "GET /api/v1/pods": without the query, which may be long.
std::string spoken(const ApiRequest& request);
/// Retry-After in seconds, where that is what it says.
std::optional<double> retry_after(const net::Headers& headers);

}  // namespace tailrace::kubernetes
