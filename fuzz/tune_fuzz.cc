// Any cycles of observations through both estimators, and any bytes as what they have learnt: what
// they say is finite and in order, a state that they saved is one that they take, and one that is
// refused changes nothing.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "input_bytes.h"
#include "tailrace/core/check.h"
#include "tailrace/tune/estimator.h"
#include "tailrace/tune/parameter_store.h"

namespace {

using namespace tailrace;
using namespace tailrace::tune;

constexpr int kCyclesMax = 12, kPodsMax = 4;

void check_number(const std::optional<double>& value) {
  TAILRACE_CHECK(!value || std::isfinite(*value));
}

void check(const ParameterEstimate& e) {
  if (e.values) {
    for (const double x : {e.values->alpha_ms, e.values->beta_ms, e.values->gamma_ms}) {
      TAILRACE_CHECK(x > 0 && std::isfinite(x));
    }
  }
  for (const double x : e.covariance.value_or(std::array<double, 9>{})) check_number(x);
  for (const auto& x :
       {e.condition, e.nis, e.holdout_error, e.rate_per_s, e.rate_low_per_s, e.rate_high_per_s}) {
    check_number(x);
  }
  TAILRACE_CHECK(!e.rate_low_per_s || !e.rate_high_per_s ||
                 *e.rate_low_per_s <= *e.rate_high_per_s);
}

TuneConfig any_config(fuzz::InputBytes& in) {
  static constexpr queueing::Mode kModes[] = {queueing::Mode::kChain, queueing::Mode::kCorrected,
                                              queueing::Mode::kClosedForm};
  TuneConfig config;
  config.estimator = in.flag() ? EstimatorKind::kKalman : EstimatorKind::kWindowed;
  config.observation_mode = in.one_of(kModes);
  if (in.flag()) config.iterations = queueing::Iterations::kOutputPlusOne;
  if (in.flag()) config.limits.max_num_seqs = in.whole(64);
  if (in.flag()) config.limits.max_batched_tokens = in.whole(8'192);
  if (in.flag()) config.limits.kv_tokens = static_cast<std::int64_t>(in.between(1, 1e12));
  if (in.flag()) config.limits.max_queue = in.whole(100);
  if (in.flag()) config.knee_tokens = in.number(300);
  if (in.flag()) config.ttft_ms = in.number(300);
  if (in.flag()) config.itl_ms = in.number(30);
  if (in.flag()) {
    config.prior = PriorParameters{{in.number(8), in.number(0.03), in.number(1e-4)}, in.number(1)};
  }
  return config;
}

std::vector<Observation> any_cycle(fuzz::InputBytes& in, double time_s) {
  std::vector<Observation> cycle(static_cast<std::size_t>(in.up_to(kPodsMax)));
  for (auto& pod : cycle) {
    pod.time_s = in.flag() ? time_s : in.number(time_s);
    pod.pod = std::string(1, static_cast<char>('a' + in.up_to(5)));
    pod.rate_per_s = in.maybe(2);
    pod.input_tokens = in.maybe(500);
    pod.output_tokens = in.maybe(150);
    pod.ttft_ms = in.maybe(60);
    pod.itl_ms = in.maybe(12);
    if (in.flag()) pod.running = in.maybe(5);
    if (in.flag()) pod.requests = in.maybe(100);
    if (in.flag()) pod.output_cv = in.maybe(0.7);
    if (in.flag()) pod.input_cv = in.maybe(0.7);
    if (in.flag()) pod.prefix_hit = in.maybe(0.3);
    if (in.flag()) pod.waiting = in.maybe(2);
    if (in.flag()) pod.itl_per_sequence_ms = in.maybe(0.1);
    if (in.flag()) pod.itl_per_sequence_error = in.maybe(0.05);
  }
  return cycle;
}

/// What was saved is taken again, and then the same.
void check_round_trip(const Estimator& estimator, const TuneConfig& config) {
  const std::string saved = estimator.save();
  auto other = make_estimator(config);
  TAILRACE_CHECK(other.has_value());
  const auto restored = (*other)->restore(saved);
  TAILRACE_CHECK(restored.has_value());
  TAILRACE_CHECK((*other)->save() == saved);
}

void run_cycles(fuzz::InputBytes& in, Estimator& estimator, const TuneConfig& config) {
  for (int i = 0; i < kCyclesMax && !in.empty(); ++i) {
    check(estimator.update(any_cycle(in, 60.0 * i)));
    check(estimator.current());
  }
  check_round_trip(estimator, config);
}

void restore_bytes(fuzz::InputBytes& in, Estimator& estimator, const TuneConfig& config) {
  auto cycles = fuzz::InputBytes(in);
  // A state of another time may be anything that has the right form.
  const auto document = in.rest();
  const std::string before = estimator.save();
  if (const auto ok = estimator.restore(document); !ok) {
    TAILRACE_CHECK(!ok.error().message.empty());
    TAILRACE_CHECK(estimator.save() == before);
  }
  check(estimator.current());
  run_cycles(cycles, estimator, config);
}

void restore_store(std::string_view document) {
  ParameterStore store;
  if (const auto ok = store.restore(document); !ok) {
    TAILRACE_CHECK(!ok.error().message.empty());
    TAILRACE_CHECK(store.entries().empty());
    return;
  }
  ParameterStore again;
  TAILRACE_CHECK(again.restore(store.save()).has_value());
  TAILRACE_CHECK(again.save() == store.save());
  for (const auto& [key, entry] : store.entries()) {
    TuneConfig config;
    config.estimator = entry.kind;
    const auto started = store.start(key, config);
    TAILRACE_CHECK(started.has_value());
    check(started->estimator->current());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::InputBytes in(data, size);
  const int what = in.up_to(3);
  if (what == 3) {
    restore_store(in.rest());
    return 0;
  }
  const auto config = any_config(in);
  const auto estimator = make_estimator(config);
  if (!estimator) {
    TAILRACE_CHECK(!estimator.error().message.empty());
    return 0;
  }
  if (what == 2) {
    restore_bytes(in, **estimator, config);
  } else {
    run_cycles(in, **estimator, config);
  }
  return 0;
}
