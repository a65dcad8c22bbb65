#include "autoscaler/support/fakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tailrace::autoscaler::testing {

FakeSettings::FakeSettings(std::string yaml) {
  set(yaml);
}

void FakeSettings::set(const std::string& yaml) {
  const std::vector<capacity::ConfigEntry> entries = {{"default", yaml, 0}};
  settings_.config = capacity::Config::of_entries(entries, "test");
  settings_.problems = settings_.config.problems();
  ++settings_.version;
}

Snapshot Fleet::snapshot(double now_s) {
  const queueing::IterationModel truth{.alpha_ms = 6.49, .beta_ms = 0.0219, .gamma_ms = 4.96e-5};
  ++cycles;
  Snapshot out;
  out.time_s = now_s;
  capacity::ModelState model{key, 1, std::nullopt, {}};
  capacity::Variant v;
  v.key = key;
  v.name = variant;
  v.accelerator = "H100";
  v.current = replicas;
  v.pending = pending;
  v.max = 20;
  for (std::int64_t p = 0; p < replicas; ++p) {
    queueing::ServiceModel service;
    service.mode = queueing::Mode::kCorrected;
    service.iteration = truth;
    const double swing = 1 + 0.3 * std::sin(0.9 * cycles + double(p));
    tune::Observation o;
    o.time_s = now_s;
    o.pod = fmt::format("p{}", p);
    o.rate_per_s = rate_per_s * swing / double(replicas);
    o.input_tokens = 512;
    o.output_tokens = 128;
    const auto at =
        queueing::latency(service, queueing::Workload::of(o.rate_per_s.value_or(0), 512, 128));
    if (at && at->ttft_ms && at->itl_ms) {
      o.ttft_ms = *at->ttft_ms;
      o.itl_ms = *at->itl_ms;
      o.running = at->concurrency;
    } else {
      o.ttft_ms = 60'000;
      o.itl_ms = 60;
      o.running = 256;
    }
    o.requests = o.rate_per_s.value_or(0) * 15;
    v.pods.push_back(std::move(o));
  }
  model.variants.push_back(std::move(v));
  out.models.push_back(std::move(model));
  if (spoil) spoil(out);
  return out;
}

void FakeCollector::collect(double now_s, UniqueFunction<void(Snapshot)> done) {
  ++calls;
  if (never) return;
  under_way = true;
  loop_.post_at(loop_.now() + takes, [this, now_s, done = std::move(done)]() mutable {
    under_way = false;
    done(fleet_.snapshot(now_s));
  });
}

void FakeActuator::apply(std::vector<Order> orders,
                         UniqueFunction<void(std::vector<Outcome>)> done) {
  ++calls;
  for (const Order& order : orders) {
    desired.push_back(order.decision.desired);
    if (order.decision.action != capacity::Action::kHold) moved.push_back(order.id);
  }
  if (never) return;
  loop_.post_at(loop_.now() + takes,
                [this, orders = std::move(orders), done = std::move(done)]() mutable {
                  std::vector<Outcome> outcomes;
                  for (const Order& order : orders) {
                    if (!refuses) {
                      fleet_.replicas = order.decision.desired;
                      fleet_.pending = 0;
                    }
                    outcomes.push_back({order.id, !refuses, refuses ? "refused" : "set"});
                  }
                  done(std::move(outcomes));
                });
}

}  // namespace tailrace::autoscaler::testing
