#include "tailrace/kubernetes/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kubernetes/api_core.h"
#include "kubernetes/documents.h"
#include "tailrace/core/environment.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"
#include "tailrace/net/percent.h"

namespace tailrace::kubernetes {
namespace {

constexpr std::size_t kTokenBytesMax = 64 * 1024;
constexpr double kRetryAfterMax_s = 3600;

ErrorCode code_of(int status) {
  switch (status) {
    case 400:
    case 422:
      return ErrorCode::kInvalidArgument;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kAlreadyExists;
    case 413:
    case 429:
      return ErrorCode::kResourceExhausted;
    case 504:
      return ErrorCode::kDeadlineExceeded;
    default:
      return ErrorCode::kUnavailable;
  }
}

net::ClientOptions client_options() {
  net::ClientOptions options;
  // A cycle's connection serves the next one too; the server itself waits for 90 s and more.
  options.idle_connection_timeout = std::chrono::seconds(30);
  return options;
}

class ApiImpl final : public Api {
 public:
  explicit ApiImpl(std::shared_ptr<ApiCore> core) : core_(std::move(core)) {}

  std::unique_ptr<ApiCall> send(ApiRequest request,
                                UniqueFunction<void(Result<ApiAnswer>)> done) override {
    return start_send(core_, std::move(request), std::move(done));
  }
  std::unique_ptr<ApiCall> list(
      std::string path, UniqueFunction<void(Result<std::vector<std::string>>)> done) override {
    return start_list(core_, std::move(path),
                      [done = std::move(done)](Result<ListedObjects> listed) mutable {
                        if (!listed) return done(fail(std::move(listed).error()));
                        done(std::move(listed->items));
                      });
  }
  std::unique_ptr<ApiCall> watch(std::string path, WatchHandlers handlers) override {
    return start_watch(core_, std::move(path), std::move(handlers));
  }

 private:
  std::shared_ptr<ApiCore> core_;
};

}  // namespace

ApiCore::ApiCore(net::EventLoop& the_loop, net::Network& network, ApiAccess who, ApiConfig how)
    : loop(the_loop),
      access(std::move(who)),
      config(how),
      client(net::HttpClient::make(the_loop, network, client_options())),
      last_token_(access.token),
      rng_(how.seed) {}

std::string ApiCore::token() {
  if (access.token_file.empty()) return last_token_;
  const auto text = core::read_regular_file(access.token_file, kTokenBytesMax);
  const std::string_view read = text ? core::trim(*text) : std::string_view();
  if (core::can_be_token(read)) {
    last_token_ = read;
    token_missing_ = false;
  } else if (!std::exchange(token_missing_, true)) {
    // The last one may still be good, and if not, the server will say so.
    log::warn("kubernetes_token_unreadable", {{"file", access.token_file}});
  }
  return last_token_;
}

net::RequestHead ApiCore::head(const std::string& method, const std::string& path) {
  net::RequestHead made{method, access.server.prefix + path, 1, {}};
  made.headers.add("Accept", "application/json");
  made.headers.add("User-Agent", "tailrace");
  if (std::string bearer = token(); !bearer.empty()) {
    made.headers.add("Authorization", "Bearer " + std::move(bearer));
  }
  return made;
}

net::CallTimeouts ApiCore::timeouts(double answer_s) const {
  return {from_seconds(config.connect_timeout_s), from_seconds(answer_s), from_seconds(answer_s)};
}

Duration ApiCore::pause(double first_s, int attempt, double max_s) {
  const double grown = std::min(max_s, first_s * std::exp2(std::min(attempt, 30)));
  return from_seconds(grown * (0.8 + 0.4 * rng_.uniform()));
}

std::unique_ptr<Api> Api::make(net::EventLoop& loop, net::Network& network, ApiAccess access,
                               ApiConfig config) {
  return std::make_unique<ApiImpl>(
      std::make_shared<ApiCore>(loop, network, std::move(access), config));
}

std::string spoken(const ApiRequest& request) {
  return request.method + " " + request.path.substr(0, request.path.find('?'));
}

std::optional<double> retry_after(const net::Headers& headers) {
  const auto text = headers.find("retry-after");
  const auto seconds = text ? core::parse_int(core::trim(*text)) : std::nullopt;
  if (!seconds || *seconds < 0) return std::nullopt;
  return std::min(static_cast<double>(*seconds), kRetryAfterMax_s);
}

Error error_of(const ApiRequest& request, const ApiAnswer& answer) {
  std::string message =
      fmt::format("{}: {} {}", spoken(request), answer.status, net::reason_phrase(answer.status));
  if (const std::string said = status_message(answer.body); !said.empty()) message += ": " + said;
  if (answer.status == 401) message += "; the token or client certificate is not accepted";
  if (answer.status == 403) message += "; grant it to this account (RBAC)";
  return {code_of(answer.status), std::move(message)};
}

std::string with_query(std::string path, std::string_view key, std::string_view value) {
  path += path.find('?') == std::string::npos ? '?' : '&';
  path.append(key) += '=';
  return path + net::percent_encoded(value);
}

}  // namespace tailrace::kubernetes
