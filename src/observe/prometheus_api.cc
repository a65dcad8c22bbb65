#include "tailrace/observe/prometheus_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "observe/secrets.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/text.h"
#include "tailrace/net/percent.h"
#include "tailrace/net/whole_answer.h"

namespace tailrace::observe {
namespace {

constexpr Duration kPauseMax = std::chrono::seconds(2);
constexpr std::size_t kBodyShownBytesMax = 200;

void add_field(std::string& form, std::string_view name, std::string_view value) {
  if (!form.empty()) form += '&';
  form += name;
  form += '=';
  form += net::percent_encoded(value);
}

std::string in_seconds(double seconds) {
  return fmt::format("{:.3f}", seconds);
}

/// A duration as Prometheus reads it: it takes "5000ms", but not "5.000s".
std::string in_millis(Duration duration) {
  return fmt::format("{:.0f}ms", to_millis(duration));
}

/// How one attempt ended.
struct Outcome {
  Result<PrometheusAnswer> answer;
  bool may_heal = false;  ///< another attempt may do better
};

Outcome final_failure(std::string message) {
  return {fail(ErrorCode::kInvalidArgument, std::move(message)), false};
}

/// What a status that is not 200 asks of the person who reads about it.
std::string_view remedy_for(int status) {
  switch (status) {
    case 401:
    case 403:
      return "; give a token that may query, with bearer_token_file or bearer_token_env";
    case 404:
      return "; is the URL's prefix right? /api/v1/query is looked for behind it";
    case 413:
    case 414:
      return "; raise the proxy's limit on the size of a request";
    default:
      return "";
  }
}

std::string shown_body(std::string_view body) {
  body = core::trim(body);
  if (body.empty() || body.starts_with('<')) return "";
  return ": " + core::printable(core::utf8_prefix(body, kBodyShownBytesMax));
}

Outcome refused(const net::WholeAnswer& answer, const Error& from_body) {
  const int status = answer.head.status;
  if (status / 100 == 3) {
    const auto to = answer.head.headers.find("location");
    return final_failure(fmt::format(
        "the server answered {} and sends us to {}; redirections are not followed: give the final "
        "URL",
        status, core::quoted(to.value_or("(nowhere)"), 256)));
  }
  // An error of the API itself is JSON with its reason; anything else is somebody in between.
  const bool from_api = from_body.code != ErrorCode::kDataLoss;
  std::string message = fmt::format(
      "the server answered {} {}{}{}", status, net::reason_phrase(status),
      from_api ? ": " + from_body.message : shown_body(answer.body), remedy_for(status));
  if (status / 100 == 5 || status == 429 || status == 408) {
    return {fail(ErrorCode::kUnavailable, std::move(message)), status != 501};
  }
  return final_failure(std::move(message));
}

Outcome read_answer(const net::WholeAnswer& answer, const PrometheusAnswerLimits& limits) {
  auto parsed = parse_prometheus_answer(answer.body, limits);
  if (answer.head.status != 200) {
    return refused(answer, parsed ? Error{ErrorCode::kDataLoss, ""} : parsed.error());
  }
  const bool may_heal = !parsed && parsed.error().code != ErrorCode::kInvalidArgument;
  return {std::move(parsed), may_heal};
}

Outcome no_answer(Error error) {
  const bool may_heal = error.code == ErrorCode::kUnavailable ||
                        error.code == ErrorCode::kDeadlineExceeded ||
                        error.code == ErrorCode::kDataLoss;
  return {fail(std::move(error)), may_heal};
}

}  // namespace

struct PrometheusApi::Core {
  Core(net::EventLoop& l, net::Network& network, PrometheusConfig c)
      : loop(l), client(net::HttpClient::make(l, network)), config(std::move(c)) {}

  net::EventLoop& loop;
  std::unique_ptr<net::HttpClient> client;
  const PrometheusConfig config;
  bool only_get = false;  ///< a proxy on the way takes no POST

  class Query;
};

class PrometheusApi::Core::Query final : public PrometheusQuery {
 public:
  Query(Core& core, std::string_view path, std::string form, Done done)
      : core_(core),
        path_(core.config.url.prefix + std::string(path)),
        form_(std::make_shared<const std::string>(std::move(form))),
        done_(std::move(done)),
        deadline_(core.loop.now() + core.config.total_timeout) {
    pause_for({});
  }

 private:
  void pause_for(Duration pause) {
    timer_ = core_.loop.after(pause, [this] { attempt(); });
  }

  void attempt() {
    ++attempts_;
    auto head = request_head();
    if (!head) return finish({fail(head.error()), false});
    const Duration left = deadline_ - core_.loop.now();
    const net::AnswerBounds bounds{std::min(core_.config.query_timeout, left),
                                   core_.config.answer_bytes_max};
    question_ =
        net::ask_whole(core_.loop, *core_.client, core_.config.url.endpoint, std::move(*head),
                       core_.only_get ? nullptr : form_, bounds,
                       [this](Result<net::WholeAnswer> answer) { take(std::move(answer)); });
  }

  Result<net::RequestHead> request_head() {
    net::RequestHead head;
    head.method = core_.only_get ? "GET" : "POST";
    head.target = core_.only_get ? path_ + "?" + *form_ : path_;
    head.headers.add("Accept", "application/json");
    if (!core_.only_get) head.headers.add("Content-Type", "application/x-www-form-urlencoded");
    secrets_.clear();
    for (const net::Header& header : core_.config.headers) {
      head.headers.add(header.name, header.value);
      secrets_.push_back(header.value);
    }
    auto token = read_bearer_token(core_.config);
    if (!token) return fail(token.error());
    if (!token->empty()) {
      head.headers.add("Authorization", "Bearer " + *token);
      secrets_.push_back(std::move(*token));
    }
    return head;
  }

  void take(Result<net::WholeAnswer> answer) {
    question_.reset();
    if (!answer) return settle(no_answer(std::move(answer.error())));
    const bool no_post = answer->head.status == 405 || answer->head.status == 501;
    if (no_post && !std::exchange(core_.only_get, true)) return attempt();
    settle(read_answer(*answer, core_.config.limits));
  }

  void settle(Outcome outcome) {
    const Duration pause =
        std::min(kPauseMax, core_.config.pause_first * (1 << std::min(attempts_ - 1, 20)));
    const bool again = outcome.may_heal && attempts_ < core_.config.attempts_max &&
                       core_.loop.now() + pause < deadline_;
    if (again) return pause_for(pause);
    finish(std::move(outcome));
  }

  /// The last thing that happens here: `done` may destroy this object.
  void finish(Outcome outcome) {
    timer_.reset();
    Done done = std::move(done_);
    if (!outcome.answer) {
      Error& error = outcome.answer.error();
      error.message = without_secrets(std::move(error.message), secrets_);
      if (attempts_ > 1) error.message += fmt::format(" (after {} attempts)", attempts_);
    } else {
      for (std::string& text : outcome.answer->warnings) {
        text = without_secrets(std::move(text), secrets_);
      }
    }
    done(std::move(outcome.answer));
  }

  Core& core_;
  const std::string path_;
  const std::shared_ptr<const std::string> form_;
  Done done_;
  const MonoTime deadline_;
  std::vector<std::string> secrets_;  ///< of the last attempt
  std::unique_ptr<net::Timer> timer_;
  std::unique_ptr<net::Question> question_;
  int attempts_ = 0;
};

PrometheusApi::PrometheusApi(net::EventLoop& loop, net::Network& network, PrometheusConfig config)
    : core_(std::make_unique<Core>(loop, network, std::move(config))) {}
PrometheusApi::~PrometheusApi() = default;

const PrometheusConfig& PrometheusApi::config() const {
  return core_->config;
}

std::unique_ptr<PrometheusQuery> PrometheusApi::query(std::string_view expression,
                                                      std::optional<double> time_s, Done done) {
  std::string form;
  add_field(form, "query", expression);
  if (time_s) add_field(form, "time", in_seconds(*time_s));
  add_field(form, "timeout", in_millis(core_->config.query_timeout));
  return std::make_unique<Core::Query>(*core_, "/api/v1/query", std::move(form), std::move(done));
}

std::unique_ptr<PrometheusQuery> PrometheusApi::query_range(std::string_view expression,
                                                            double from_s, double to_s,
                                                            double step_s, Done done) {
  std::string form;
  add_field(form, "query", expression);
  add_field(form, "start", in_seconds(from_s));
  add_field(form, "end", in_seconds(to_s));
  add_field(form, "step", in_seconds(step_s));
  add_field(form, "timeout", in_millis(core_->config.query_timeout));
  return std::make_unique<Core::Query>(*core_, "/api/v1/query_range", std::move(form),
                                       std::move(done));
}

Result<void> check(const PrometheusConfig& config) {
  const auto bad = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (config.url.endpoint.host.empty()) return bad("url is missing: give http://host:9090");
  if (!config.bearer_token_file.empty() && !config.bearer_token_env.empty()) {
    return bad("bearer_token_file and bearer_token_env are both given: give one");
  }
  const bool token = !config.bearer_token_file.empty() || !config.bearer_token_env.empty();
  for (const net::Header& header : config.headers) {
    const bool name =
        !header.name.empty() && std::all_of(header.name.begin(), header.name.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '-' || c == '_';
        });
    if (!name) return bad("headers: " + core::quoted(header.name) + " is no name of a header");
    const bool value = std::all_of(header.value.begin(), header.value.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) != 0x7f;
    });
    if (!value) return bad("headers: the value of " + header.name + " has control characters");
    if (token && core::iequals(header.name, "authorization")) {
      return bad("headers: Authorization is given beside a bearer token: give one");
    }
  }
  if (config.query_timeout <= Duration{0} || config.total_timeout <= Duration{0} ||
      config.pause_first < Duration{0} || config.attempts_max < 1) {
    return bad("query_timeout, total_timeout and attempts_max must be greater than 0");
  }
  return {};
}

}  // namespace tailrace::observe
