#include "tailrace/loadgen/workload.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "tailrace/core/text.h"

namespace tailrace::loadgen {
namespace {

using simdjson::dom::element;

std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(text.data(), text.size()));
}

std::string user_message(std::string_view prompt) {
  return fmt::format(R"([{{"role":"user","content":{}}}])", json_text(prompt));
}

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> read_tokens(element value, std::string_view key, std::optional<std::int64_t>& into) {
  std::int64_t tokens = 0;
  if (value.is_null()) return {};
  if (value.get(tokens) != simdjson::SUCCESS || tokens < 1) {
    return bad(fmt::format("{} is {}; it must be a whole number, at least 1", key,
                           core::quoted(simdjson::minify(value))));
  }
  into = tokens;
  return {};
}

Result<void> read_number(element value, std::string_view key, double least, double& into) {
  if (value.get(into) == simdjson::SUCCESS && std::isfinite(into) && into >= least) return {};
  return bad(fmt::format("{} is {}; it must be a number, at least {}", key,
                         core::quoted(simdjson::minify(value)), least));
}

Result<void> read_law(element value, LoadRequest& into) {
  constexpr double kSmallest = 1e-9;
  GivenLaw law;
  simdjson::dom::object object;
  if (value.is_null()) return {};
  if (value.get(object) != simdjson::SUCCESS) return bad("law must be an object with mu and sigma");
  bool has_mu = false;
  bool has_sigma = false;
  for (const auto& [key, number] : object) {
    if (key == "mu") {
      has_mu = true;
      if (auto ok = read_number(number, "law.mu", -700, law.mu); !ok) return ok;
    } else if (key == "sigma") {
      has_sigma = true;
      if (auto ok = read_number(number, "law.sigma", kSmallest, law.sigma); !ok) return ok;
    } else if (key == "nu") {
      if (auto ok = read_number(number, "law.nu", kSmallest, law.nu); !ok) return ok;
    }
  }
  if (!has_mu || !has_sigma) return bad("law must have mu and sigma");
  into.law = law;
  return {};
}

/// What a trace says to the simulator (docs/traces.md): one file serves both.
constexpr std::array<std::string_view, 8> kOfTraces{"prompt_tokens", "tenant",       "priority",
                                                    "weight",        "deadline_ms",  "session",
                                                    "prefix_ids",    "tokens_per_id"};

Result<void> read_field(std::string_view key, element value, LoadRequest& into) {
  if (key == "id") {
    std::string_view id;
    if (value.get(id) != simdjson::SUCCESS) return bad("id must be a string");
    into.id = id;
  } else if (key == "prompt") {
    std::string_view prompt;
    if (value.get(prompt) != simdjson::SUCCESS) return bad("prompt must be a string");
    into.messages_json = user_message(prompt);
  } else if (key == "messages") {
    if (!value.is_array()) return bad("messages must be a list");
    into.messages_json = simdjson::minify(value);
  } else if (key == "max_tokens") {
    return read_tokens(value, key, into.max_tokens);
  } else if (key == "output_tokens") {
    return read_tokens(value, key, into.output_tokens);
  } else if (key == "law") {
    return read_law(value, into);
  } else if (key == "arrival_s") {
    double at = 0;
    if (auto ok = read_number(value, key, 0, at); !ok) return ok;
    into.arrival_s = at;
  } else if (key == "fields") {
    if (!value.is_object()) return bad("fields must be an object");
    into.fields_json = simdjson::minify(value);
  } else if (std::find(kOfTraces.begin(), kOfTraces.end(), key) == kOfTraces.end()) {
    return bad(fmt::format("{} is unknown; put fields of the request's body under \"fields\"",
                           core::quoted(key)));
  }
  return {};
}

Result<LoadRequest> parse_line(simdjson::dom::parser& parser, std::string_view line) {
  simdjson::dom::object object;
  if (parser.parse(line.data(), line.size()).get(object) != simdjson::SUCCESS) {
    return bad("not a JSON object");
  }
  LoadRequest request;
  for (const auto& [key, value] : object) {
    if (auto ok = read_field(key, value, request); !ok) return fail(ok.error());
  }
  if (request.messages_json.empty()) return bad("prompt or messages is missing");
  return request;
}

struct HeavyTail {
  double mu = 4.6;
  double mu_sd = 0.9;
  double sigma = 0.75;
  double sigma_log_sd = 0.4;
  double nu = 3.5;
  double cap = 2048;
};

Result<HeavyTail> parse_heavy_tail(std::string_view parameters) {
  HeavyTail law;
  const std::array<std::pair<std::string_view, double*>, 6> keys{
      {{"mu", &law.mu},
       {"mu_sd", &law.mu_sd},
       {"sigma", &law.sigma},
       {"sigma_log_sd", &law.sigma_log_sd},
       {"nu", &law.nu},
       {"cap", &law.cap}}};
  if (parameters.empty()) return law;
  for (const std::string_view part : core::split(parameters, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const auto* found = std::find_if(keys.begin(), keys.end(),
                                     [&](const auto& entry) { return entry.first == key; });
    const auto value = equals == std::string_view::npos
                           ? std::nullopt
                           : core::parse_double(part.substr(equals + 1));
    if (found == keys.end() || !value || !std::isfinite(*value)) {
      return bad(fmt::format("{} is not one of mu, mu_sd, sigma, sigma_log_sd, nu, cap = number",
                             core::quoted(part)));
    }
    *found->second = *value;
  }
  if (law.mu_sd < 0 || law.sigma <= 0 || law.sigma_log_sd < 0 || law.nu <= 0 || law.cap < 1 ||
      law.cap > 1e9) {
    return bad(
        "heavy-tail needs mu_sd >= 0, sigma > 0, sigma_log_sd >= 0, nu > 0 and cap from 1 to 1e9");
  }
  return law;
}

std::string few_words(Rng& rng, std::size_t number) {
  constexpr std::array<std::string_view, 16> kWords{
      "explain", "list",  "write",  "compare", "summarise", "rivers", "engines", "letters",
      "history", "bread", "colour", "music",   "markets",   "winter", "bridges", "tides"};
  std::string text = fmt::format("Request {}:", number);
  const std::uint64_t words = 3 + rng.below(6);
  for (std::uint64_t i = 0; i < words; ++i) {
    text += fmt::format(" {}", kWords[rng.below(kWords.size())]);
  }
  return text;
}

LoadRequest draw_heavy_tail(const HeavyTail& heavy, Rng& rng, std::size_t number) {
  LoadRequest request;
  request.id = fmt::format("r{:06}", number);
  request.messages_json = user_message(few_words(rng, number));
  const double mu = heavy.mu + heavy.mu_sd * rng.normal();
  const double sigma = heavy.sigma * std::exp(heavy.sigma_log_sd * rng.normal());
  const double tokens = std::ceil(std::exp(mu + sigma * rng.student_t(heavy.nu)));
  request.law = GivenLaw{mu, sigma, heavy.nu};
  request.max_tokens = static_cast<std::int64_t>(heavy.cap);
  request.output_tokens = static_cast<std::int64_t>(std::clamp(tokens, 1.0, heavy.cap));
  return request;
}

}  // namespace

Result<std::vector<LoadRequest>> parse_requests(std::string_view jsonl) {
  std::vector<LoadRequest> requests;
  simdjson::dom::parser parser;
  std::size_t number = 0;
  for (const std::string_view raw : core::split(jsonl, '\n')) {
    ++number;
    const std::string_view line = core::trim(raw);
    if (line.empty()) continue;
    auto request = parse_line(parser, line);
    if (!request) return fail(request.error().with_context(fmt::format("line {}", number)));
    if (request->id.empty()) request->id = fmt::format("line{}", number);
    requests.push_back(std::move(*request));
  }
  if (requests.empty()) return bad("there is no request; give one JSON object a line");
  return requests;
}

std::string to_json_line(const LoadRequest& request) {
  std::string line =
      fmt::format(R"({{"id":{},"messages":{})", json_text(request.id), request.messages_json);
  if (request.max_tokens) line += fmt::format(R"(,"max_tokens":{})", *request.max_tokens);
  if (request.output_tokens) line += fmt::format(R"(,"output_tokens":{})", *request.output_tokens);
  if (request.law) {
    line += fmt::format(R"(,"law":{{"mu":{},"sigma":{},"nu":{}}})", request.law->mu,
                        request.law->sigma, request.law->nu);
  }
  if (request.arrival_s) line += fmt::format(R"(,"arrival_s":{})", *request.arrival_s);
  if (!request.fields_json.empty()) line += fmt::format(R"(,"fields":{})", request.fields_json);
  return line + "}";
}

Result<std::vector<LoadRequest>> synthetic_requests(std::string_view spec, std::size_t count,
                                                    std::uint64_t seed) {
  const std::size_t colon = spec.find(':');
  if (spec.substr(0, colon) != "heavy-tail") {
    return bad(fmt::format("synthetic workload {} is unknown; use heavy-tail", core::quoted(spec)));
  }
  const auto heavy = parse_heavy_tail(colon == std::string_view::npos ? std::string_view{}
                                                                      : spec.substr(colon + 1));
  if (!heavy) return fail(heavy.error().with_context("synthetic workload"));
  const Rng root(seed);
  std::vector<LoadRequest> requests;
  requests.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    // A stream per request: the first hundred of a thousand are the hundred of a hundred.
    Rng rng = root.fork(fmt::format("heavy-tail {}", i));
    requests.push_back(draw_heavy_tail(*heavy, rng, i));
  }
  return requests;
}

}  // namespace tailrace::loadgen
