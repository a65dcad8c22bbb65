// What does the Kubernetes API server say, and how is it asked?
//
// A client of the few REST calls that an autoscaler needs, over HttpClient: bearer token or client
// certificate, the cluster's own authority, time-outs, retries of what is safe to repeat, 429 with
// Retry-After, lists in pages, watches that resume. Documents are JSON text, parsed by those who
// know what is in them. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/time.h"
#include "tailrace/net/http_client.h"

namespace tailrace::kubernetes {

/// Where the server is and who we are.
struct ApiAccess {
  net::Url server;
  std::string token_file;  ///< read again when it changes, as mounted tokens are; "": none
  std::string ca_file, client_certificate_file, client_key_file;
  std::string ns;  ///< our own namespace
};
/// From the pod's mounted service account. Errors: kNotFound outside of a cluster.
Result<ApiAccess> in_cluster_access();
/// From a kubeconfig's current context. Errors: kInvalidArgument naming file, key and remedy;
/// kUnsupported for exec plug-ins.
Result<ApiAccess> kubeconfig_access(const std::string& path);

struct ApiRequest {
  std::string method = "GET";
  std::string path;          ///< "/api/v1/namespaces/llm/pods?labelSelector=…"
  std::string body;          ///< JSON; "" for none
  std::string content_type;  ///< "": application/json
};

struct ApiAnswer {
  int status = 0;
  std::string body;
  std::optional<double> retry_after_s;

  bool ok() const { return status >= 200 && status < 300; }
};

/// A call under way; destroying it cancels.
class ApiCall {
 public:
  virtual ~ApiCall() = default;
};

struct WatchHandlers {
  /// ADDED, MODIFIED, DELETED with the object's JSON.
  UniqueFunction<void(std::string_view type, std::string_view object)> on_event;
  /// A new list replaces what was known: at the start, and when the server has forgotten our place
  /// (410 Gone). All its objects follow as ADDED, then on_synced.
  UniqueFunction<void()> on_restart;
  UniqueFunction<void()> on_synced;
  /// It was interrupted and goes on by itself, with growing pauses.
  UniqueFunction<void(const Error&)> on_interrupted;
};

class Api {
 public:
  static std::unique_ptr<Api> make(net::EventLoop& loop, net::Network& network, ApiAccess access);
  virtual ~Api() = default;

  /// One answer, whatever its status. Errors: kUnavailable, kDeadlineExceeded, kDataLoss.
  [[nodiscard]] virtual std::unique_ptr<ApiCall> send(
      ApiRequest request, UniqueFunction<void(Result<ApiAnswer>)> done) = 0;
  /// All objects of a list, page after page, each as its JSON text. Errors: also those of a status
  /// that is not 2xx, with the server's own message (kNotFound for 404, kUnavailable for 5xx, …).
  [[nodiscard]] virtual std::unique_ptr<ApiCall> list(
      std::string path, UniqueFunction<void(Result<std::vector<std::string>>)> done) = 0;
  /// `path` of the list to watch. Ends when destroyed.
  [[nodiscard]] virtual std::unique_ptr<ApiCall> watch(std::string path,
                                                       WatchHandlers handlers) = 0;
};

/// What a status that is not 2xx means, with the server's message.
Error error_of(const ApiRequest& request, const ApiAnswer& answer);

}  // namespace tailrace::kubernetes
