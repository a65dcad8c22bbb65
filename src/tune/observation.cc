#include "tailrace/tune/observation.h"

#include <fmt/format.h>

#include <cmath>

namespace tailrace::tune {

std::optional<std::string> unusable(const Observation& o) {
  const std::pair<const char*, const std::optional<double>&> needed[] = {
      {"rate", o.rate_per_s},
      {"input", o.input_tokens},
      {"output", o.output_tokens},
      {"ttft_ms", o.ttft_ms},
      {"itl_ms", o.itl_ms}};
  for (const auto& [name, value] : needed) {
    if (!value) return fmt::format("{} is missing", name);
    if (!std::isfinite(*value) || *value <= 0) return fmt::format("{} is {}", name, *value);
  }
  return std::nullopt;
}

queueing::Workload workload_of(const Observation& o) {
  const auto cv = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) && *value >= 0 ? *value : 0;
  };
  auto w = queueing::Workload::of(*o.rate_per_s, *o.input_tokens, *o.output_tokens, cv(o.input_cv),
                                  cv(o.output_cv));
  queueing::keep_possible_moments(w);
  if (o.prefix_hit && *o.prefix_hit >= 0 && *o.prefix_hit <= 1) w.prefix_hit = *o.prefix_hit;
  return w;
}

}  // namespace tailrace::tune
