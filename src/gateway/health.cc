#include "gateway/health.h"

#include <utility>

#include "gateway/forward_headers.h"
#include "gateway/models.h"
#include "tailrace/core/log.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kProbeBytesMax = 1 << 20;

/// The health path stands beside "/v1", not below it.
std::string health_target(const Backend& backend) {
  std::string_view prefix = backend.url.prefix;
  if (prefix.ends_with("/v1")) prefix.remove_suffix(3);
  return std::string(prefix) + backend.health_path;
}

}  // namespace

struct HealthChecker::Watch {
  std::shared_ptr<Backend> backend;
  std::unique_ptr<net::Timer> timer;
  std::unique_ptr<net::Timer> deadline;
  std::unique_ptr<net::Call> call;
  int failures = 0;
  int successes = 0;
};

HealthChecker::HealthChecker(net::EventLoop& loop, net::HttpClient& client, HealthOptions options,
                             OnChange on_change)
    : loop_(loop), client_(client), options_(options), on_change_(std::move(on_change)) {}

HealthChecker::~HealthChecker() = default;

void HealthChecker::watch(std::shared_ptr<Backend> backend) {
  const std::string name = backend->name;
  auto watch = std::make_unique<Watch>();
  watch->backend = std::move(backend);
  Watch& ref = *watch;
  watches_[name] = std::move(watch);
  probe(ref);
}

void HealthChecker::unwatch(std::string_view name) {
  const auto it = watches_.find(name);
  if (it != watches_.end()) watches_.erase(it);
}

std::unique_ptr<net::Call> HealthChecker::get(Watch& watch, std::string target,
                                              UniqueFunction<void(Result<std::string>)> done) {
  struct Answer {
    int status = 0;
    std::string body;
    UniqueFunction<void(Result<std::string>)> done;
  };
  auto answer = std::make_shared<Answer>();
  answer->done = std::move(done);
  net::RequestHead head;
  head.method = "GET";
  head.target = std::move(target);
  head.headers.add("accept", "*/*");
  if (!watch.backend->api_key.empty()) {
    head.headers.add("authorization", "Bearer " + watch.backend->api_key.reveal());
  }
  net::CallHandlers handlers;
  handlers.on_head = [answer](net::ResponseHead h) { answer->status = h.status; };
  handlers.on_body = [answer](std::string_view bytes) {
    if (answer->body.size() + bytes.size() <= kProbeBytesMax) answer->body.append(bytes);
  };
  handlers.on_end = [answer] {
    if (answer->status >= 200 && answer->status < 300) {
      answer->done(std::move(answer->body));
    } else {
      answer->done(fail(ErrorCode::kUnavailable, "answered " + std::to_string(answer->status)));
    }
  };
  handlers.on_error = [answer](net::CallError error) { answer->done(fail(error.error)); };
  return client_.start(
      watch.backend->url.endpoint, std::move(head), nullptr,
      {.connect = options_.timeout, .first_byte = options_.timeout, .idle = options_.timeout},
      std::move(handlers));
}

void HealthChecker::probe(Watch& watch) {
  // One deadline over the whole probe: an engine that drips bytes is not well.
  watch.deadline = loop_.after(options_.timeout, [this, &watch] {
    watch.call.reset();
    probe_ended(watch, false, "health check timed out");
  });
  watch.call =
      get(watch, health_target(*watch.backend), [this, &watch](Result<std::string> answer) {
        const bool ok = answer.has_value();
        probe_ended(watch, ok, ok ? std::string() : answer.error().message);
      });
}

void HealthChecker::probe_ended(Watch& watch, bool ok, std::string error) {
  watch.deadline.reset();
  if (ok) {
    succeed_once(watch);
    fetch_models(watch);
  } else {
    fail_once(watch, error);
    schedule(watch);
  }
}

void HealthChecker::fetch_models(Watch& watch) {
  const auto ended = [this, &watch](Result<std::string> answer) {
    watch.deadline.reset();
    if (answer) {
      auto data = models_data(*answer);
      if (data && *data != watch.backend->models_json) {
        watch.backend->models_json = std::move(*data);
        on_change_(*watch.backend);
      }
    }
    schedule(watch);
  };
  watch.deadline = loop_.after(options_.timeout, [this, &watch] {
    watch.call.reset();
    schedule(watch);
  });
  watch.call = get(watch, join_target(watch.backend->url.prefix, "/v1/models"), ended);
}

void HealthChecker::schedule(Watch& watch) {
  watch.timer = loop_.after(options_.interval, [this, &watch] { probe(watch); });
}

void HealthChecker::fail_once(Watch& watch, std::string_view error) {
  Backend& backend = *watch.backend;
  backend.last_error = error;
  watch.successes = 0;
  ++watch.failures;
  const bool untried = backend.healthy && !backend.confirmed;
  if (!backend.healthy || (watch.failures < options_.unhealthy_after && !untried)) return;
  backend.healthy = false;
  backend.confirmed = false;
  log::warn("backend_unhealthy",
            {{"backend", backend.name}, {"error", error}, {"failures", watch.failures}});
  on_change_(backend);
}

void HealthChecker::succeed_once(Watch& watch) {
  Backend& backend = *watch.backend;
  watch.failures = 0;
  ++watch.successes;
  if (backend.healthy && backend.confirmed) return;
  if (!backend.healthy && watch.successes < options_.healthy_after) return;
  backend.healthy = true;
  backend.confirmed = true;
  backend.last_error.clear();
  log::info("backend_healthy", {{"backend", backend.name}});
  on_change_(backend);
}

void HealthChecker::passive_failure(std::string_view name, std::string_view error) {
  const auto it = watches_.find(name);
  if (it != watches_.end()) fail_once(*it->second, error);
}

void HealthChecker::passive_success(std::string_view name) {
  const auto it = watches_.find(name);
  // Only a probe brings an unhealthy backend back; real traffic merely keeps the count of a healthy
  // one low.
  if (it != watches_.end() && it->second->backend->healthy) it->second->failures = 0;
}

}  // namespace tailrace::gateway
