#include "autoscaler/gateway_admin.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <utility>

#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace json = boost::json;
namespace {

constexpr std::size_t kBodyBytesMax = std::size_t{4} << 20;
constexpr std::string_view kBackends = "/tailrace/v1/backends";

std::string text_of(const json::object& object, const char* key) {
  const auto* value = object.if_contains(key);
  const auto* string = value ? value->if_string() : nullptr;
  return string ? std::string(string->data(), string->size()) : std::string();
}

Result<std::vector<GatewayBackend>> parse_backends(const std::string& body) {
  const auto damaged = [] {
    return fail(ErrorCode::kDataLoss,
                "the answer is no list of backends; is that the gateway's admin listener?");
  };
  boost::system::error_code error;
  const auto value = json::parse(body, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* list = object ? object->if_contains("backends") : nullptr;
  if (list == nullptr || !list->is_array()) return damaged();
  std::vector<GatewayBackend> backends;
  for (const auto& item : list->get_array()) {
    const auto* entry = item.if_object();
    if (entry == nullptr) return damaged();
    GatewayBackend backend;
    backend.name = text_of(*entry, "name");
    backend.url = text_of(*entry, "url");
    const auto* running = entry->if_contains("running");
    if (running != nullptr && running->is_int64()) backend.running = running->get_int64();
    const auto* draining = entry->if_contains("draining");
    backend.draining = draining != nullptr && draining->is_bool() && draining->get_bool();
    backends.push_back(std::move(backend));
  }
  return backends;
}

/// The message of an error answer.
Error error_of(const net::WholeAnswer& answer) {
  boost::system::error_code error;
  const auto value = json::parse(answer.body, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* inner = object ? object->if_contains("error") : nullptr;
  std::string message =
      inner != nullptr && inner->is_object() ? text_of(inner->get_object(), "message") : "";
  const auto code = answer.head.status == 404   ? ErrorCode::kNotFound
                    : answer.head.status >= 500 ? ErrorCode::kUnavailable
                                                : ErrorCode::kInvalidArgument;
  return {code,
          fmt::format("answered {}{}{}", answer.head.status, message.empty() ? "" : ": ", message)};
}

}  // namespace

HttpRequests::HttpRequests(net::EventLoop& loop, net::Network& network, Duration timeout)
    : loop_(loop), client_(net::HttpClient::make(loop, network)), timeout_(timeout) {}

void HttpRequests::send(const net::Endpoint& to, net::RequestHead head, std::string body,
                        UniqueFunction<void(Result<net::WholeAnswer>)> done) {
  const std::uint64_t id = next_++;
  auto shared = body.empty() ? nullptr : std::make_shared<const std::string>(std::move(body));
  questions_[id] = net::ask_whole(
      loop_, *client_, to, std::move(head), std::move(shared), {timeout_, kBodyBytesMax},
      [this, id, done = std::move(done)](Result<net::WholeAnswer> answer) mutable {
        const auto over = questions_.extract(id);
        // Whoever is told may end this object.
        done(std::move(answer));
      });
}

GatewayAdmin::GatewayAdmin(HttpRequests& requests, net::Url url, std::string token)
    : requests_(requests), url_(std::move(url)), token_(std::move(token)) {}

void GatewayAdmin::call(std::string method, const std::string& path, std::string body,
                        UniqueFunction<void(Result<net::WholeAnswer>)> done) {
  net::RequestHead head;
  head.method = std::move(method);
  head.target = url_.prefix + path;
  if (!body.empty()) head.headers.add("content-type", "application/json");
  if (!token_.empty()) head.headers.add("authorization", "Bearer " + token_);
  requests_.send(url_.endpoint, std::move(head), std::move(body),
                 [done = std::move(done)](Result<net::WholeAnswer> answer) mutable {
                   if (answer && (answer->head.status < 200 || answer->head.status > 299)) {
                     return done(fail(error_of(*answer)));
                   }
                   done(std::move(answer));
                 });
}

void GatewayAdmin::list(UniqueFunction<void(Result<std::vector<GatewayBackend>>)> done) {
  call("GET", std::string(kBackends), "",
       [done = std::move(done)](Result<net::WholeAnswer> answer) mutable {
         if (!answer) return done(fail(answer.error()));
         done(parse_backends(answer->body));
       });
}

void GatewayAdmin::put(std::string_view name, std::string backend,
                       UniqueFunction<void(Result<void>)> done) {
  call("PUT", fmt::format("{}/{}", kBackends, name), std::move(backend),
       [done = std::move(done)](const Result<net::WholeAnswer>& answer) mutable {
         if (!answer) return done(fail(answer.error()));
         done({});
       });
}

void GatewayAdmin::remove(std::string_view name, UniqueFunction<void(Result<void>)> done) {
  call("DELETE", fmt::format("{}/{}", kBackends, name), "",
       [done = std::move(done)](const Result<net::WholeAnswer>& answer) mutable {
         if (!answer && answer.error().code != ErrorCode::kNotFound) {
           return done(fail(answer.error()));
         }
         done({});
       });
}

}  // namespace tailrace::autoscaler
