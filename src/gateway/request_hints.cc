#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "gateway/request_reader.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kTenantBytesMax = 128;
constexpr std::int64_t kPriorityMax = 1'000'000;
constexpr std::int64_t kDeadlineMillisMax = std::int64_t{7} * 24 * 3600 * 1000;

struct Named {
  std::string_view name;
  std::string_view value;
};

/// The first of these headers that is there; our own name stands first and wins.
std::optional<Named> first_of(const net::Headers& headers,
                              std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (const auto value = headers.find(name)) return Named{name, core::trim(*value)};
  }
  return std::nullopt;
}

tl::unexpected<Error> bad_header(const Named& header, std::string_view expected) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("header {}: {} is not {}", header.name,
                                                       core::quoted(header.value), expected));
}

}  // namespace

Result<length::LengthLaw> parse_length_law(std::string_view text) {
  static constexpr std::string_view kExample = "expected \"log-t;mu=4.6;sigma=0.75;nu=3.5\"";
  const auto parts = core::split(text, ';');
  if (core::trim(parts.front()) != "log-t") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("unknown law {}; {}", core::quoted(parts.front()), kExample));
  }
  std::optional<double> mu;
  std::optional<double> sigma;
  std::optional<double> nu;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto pair = core::split(core::trim(parts[i]), '=');
    const auto value = pair.size() == 2 ? core::parse_double(core::trim(pair[1])) : std::nullopt;
    const auto key = core::trim(pair.front());
    std::optional<double>* target = key == "mu"      ? &mu
                                    : key == "sigma" ? &sigma
                                    : key == "nu"    ? &nu
                                                     : nullptr;
    if (!value || target == nullptr || target->has_value()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("cannot read {}; {}", core::quoted(parts[i]), kExample));
    }
    *target = value;
  }
  if (!mu || !sigma) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("mu and sigma are needed; {}", kExample));
  }
  return length::LengthLaw::log_t(*mu, *sigma, nu.value_or(3.5));
}

Result<RequestHints> read_hints(const net::Headers& headers, bool accept_given_laws) {
  RequestHints hints;
  if (const auto tenant = first_of(headers, {"x-tailrace-tenant", "x-llm-d-inference-fairness-id",
                                             "x-gateway-inference-fairness-id"})) {
    hints.tenant = core::valid_utf8(core::utf8_prefix(tenant->value, kTenantBytesMax));
  }
  if (const auto priority = first_of(headers, {"x-tailrace-priority"})) {
    const auto value = core::parse_int(priority->value);
    if (!value || *value < -kPriorityMax || *value > kPriorityMax) {
      return bad_header(*priority, fmt::format("a whole number within ±{}", kPriorityMax));
    }
    hints.priority = static_cast<int>(*value);
  }
  if (const auto deadline =
          first_of(headers, {"x-tailrace-deadline-ms", "x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"})) {
    const auto value = core::parse_int(deadline->value);
    if (!value || *value < 1 || *value > kDeadlineMillisMax) {
      return bad_header(*deadline,
                        fmt::format("a number of milliseconds from 1 to {}", kDeadlineMillisMax));
    }
    hints.deadline = std::chrono::milliseconds(*value);
  }
  const auto law = first_of(headers, {"x-tailrace-length-law"});
  if (law && accept_given_laws) {
    auto parsed = parse_length_law(law->value);
    if (!parsed) return fail(parsed.error().with_context("header x-tailrace-length-law"));
    hints.law = *parsed;
  }
  return hints;
}

}  // namespace tailrace::gateway
