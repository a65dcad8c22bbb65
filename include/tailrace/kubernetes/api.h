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

/// Where the server is and who we are. Files are PEM; each may be given as its text instead.
struct ApiAccess {
  net::Url server;
  std::string token_file;  ///< read again for each request, as mounted tokens change; "": none
  std::string token;       ///< where there is no file
  std::string ca_file, ca_pem;
  std::string client_certificate_file, client_certificate_pem;
  std::string client_key_file, client_key_pem;
  bool insecure_skip_verify = false;
  std::string ns;  ///< our own namespace; "" where that is not known
};
/// From the pod's service account, mounted at `folder`, and the environment. Errors: kNotFound
/// outside of a cluster.
Result<ApiAccess> in_cluster_access(
    const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");
/// From a kubeconfig's current context. Errors: kNotFound; kInvalidArgument naming file, key and
/// remedy; kUnsupported for plug-ins, passwords and proxies.
Result<ApiAccess> kubeconfig_access(const std::string& path);

/// What make_socket_network() must know to speak with the server.
net::TlsOptions tls_options(const ApiAccess& access);

struct ApiConfig {
  double connect_timeout_s = 5;
  double request_timeout_s = 15;   ///< for a whole request, repetitions included
  double retry_pause_s = 0.25;     ///< before the first repetition; then twice as long, and so on
  double watch_pause_max_s = 30;   ///< between attempts to watch
  double watch_s = 120;            ///< asked for: the server ends a watch by then, and it goes on
  std::size_t page_objects = 500;  ///< of a list
  std::size_t answer_bytes_max = 64u << 20;
  std::size_t line_bytes_max = 8u << 20;  ///< of a watch; etcd keeps no object beyond 1.5 MiB
  std::size_t list_objects_max = 200'000;
  std::uint64_t seed = 0;  ///< of the pauses' jitter
};

struct ApiRequest {
  std::string method = "GET";
  std::string path;          ///< "/api/v1/namespaces/llm/pods?labelSelector=…"
  std::string body;          ///< JSON; "" for none
  std::string content_type;  ///< "": application/json; a PATCH needs kMergePatch or another
  double timeout_s = 0;      ///< 0: as configured
};
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";

struct ApiAnswer {
  int status = 0;
  std::string body;
  std::optional<double> retry_after_s;

  bool ok() const { return status >= 200 && status < 300; }
};

/// A call under way; destroying it cancels. Its handlers may destroy it.
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
  /// `network` must know the access's certificates (tls_options). Calls may outlive the Api; the
  /// loop and the network outlive both.
  static std::unique_ptr<Api> make(net::EventLoop& loop, net::Network& network, ApiAccess access,
                                   ApiConfig config = {});
  virtual ~Api() = default;

  /// One answer, whatever its status. Only a GET is repeated: when no answer came, and after 429
  /// and 5xx, within its time-out. Errors: kUnavailable, kDeadlineExceeded, kDataLoss,
  /// kResourceExhausted for an answer of more bytes than allowed.
  [[nodiscard]] virtual std::unique_ptr<ApiCall> send(
      ApiRequest request, UniqueFunction<void(Result<ApiAnswer>)> done) = 0;
  /// All objects of a list, page after page, each as its JSON text (without `kind` where the list
  /// tells it). Errors: also those of a status that is not 2xx, as error_of() says them.
  [[nodiscard]] virtual std::unique_ptr<ApiCall> list(
      std::string path, UniqueFunction<void(Result<std::vector<std::string>>)> done) = 0;
  /// `path` of the list to watch. Ends when destroyed.
  [[nodiscard]] virtual std::unique_ptr<ApiCall> watch(std::string path,
                                                       WatchHandlers handlers) = 0;
};

/// What a status that is not 2xx means, with the server's message: kInvalidArgument for 400 and
/// 422, kNotFound, kAlreadyExists for 409 (somebody else wrote it), kResourceExhausted for 413 and
/// 429, kDeadlineExceeded for 504, otherwise kUnavailable.
Error error_of(const ApiRequest& request, const ApiAnswer& answer);

/// `path` with one more query parameter, escaped.
std::string with_query(std::string path, std::string_view key, std::string_view value);

}  // namespace tailrace::kubernetes
