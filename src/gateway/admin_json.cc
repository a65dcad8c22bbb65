#include "gateway/admin_json.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <utility>

#include "tailrace/core/text.h"
#include "tailrace/net/address_field.h"

namespace tailrace::gateway {
namespace json = boost::json;
namespace {

json::value ms(Duration d) {
  return to_millis(d);
}
json::value ms(std::optional<Duration> d) {
  return d ? json::value(to_millis(*d)) : json::value();
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value() : json::value(json::string(core::valid_utf8(text)));
}

json::array names(const std::vector<std::string>& list) {
  json::array array;
  for (const auto& name : list) array.emplace_back(name);
  return array;
}

json::object law_object(const length::LengthLaw& law, Tokens cap) {
  const auto limit = static_cast<double>(cap.count());
  json::object object{{"family", length::family_name(law.family())}};
  for (const auto& parameter : law.parameters()) object[parameter.name] = parameter.value;
  object["p50"] = std::min(limit, law.quantile(0.5));
  object["p90"] = std::min(limit, law.quantile(0.9));
  object["mean"] = law.capped_mean(limit);
  return object;
}

json::object policy_object(const AdminActions::PolicyState& policy) {
  return {{"policy", policy.configured},
          {"effective", policy.effective},
          {"reason", text_or_null(policy.reason)}};
}

json::object backend_object(const dispatch::BackendView& view, const Backend* backend,
                            MonoTime now) {
  json::object object{{"name", view.name},       {"models", names(view.models)},
                      {"slots", view.slots},     {"running", view.running},
                      {"healthy", view.healthy}, {"draining", view.draining}};
  const bool backing_off = view.backoff_until && *view.backoff_until > now;
  object["backoff_ms"] = backing_off ? ms(*view.backoff_until - now) : json::value();
  if (backend) {
    object["url"] = core::valid_utf8(net::to_string(backend->url));
    object["confirmed"] = backend->confirmed;
    object["last_error"] = text_or_null(backend->last_error);
    object["has_api_key"] = !backend->api_key.empty();
  }
  return object;
}

/// One entry per known backend: the dispatcher's view, or, for one that serves no model yet, the
/// table's.
std::vector<json::object> backend_objects(const dispatch::Dispatcher& dispatcher,
                                          const Backends& backends, MonoTime now) {
  std::vector<json::object> objects;
  const auto views = dispatcher.backends();
  objects.reserve(views.size());
  for (const auto& view : views) {
    objects.push_back(backend_object(view, backends.find(view.name).get(), now));
  }
  for (const auto& backend : backends.all()) {
    const bool listed =
        std::any_of(views.begin(), views.end(),
                    [&](const dispatch::BackendView& v) { return v.name == backend->name; });
    if (listed) continue;
    dispatch::BackendView view;
    view.name = backend->name;
    view.slots = backend->slots;
    view.healthy = backend->healthy;
    objects.push_back(backend_object(view, backend.get(), now));
  }
  return objects;
}

json::object job_object(const schedule::Job& job, MonoTime now) {
  json::object object{{"job", job.id.count()},
                      {"tenant", text_or_null(job.tenant)},
                      {"priority", job.priority},
                      {"slots", job.slots},
                      {"prompt_tokens", job.prompt_tokens.count()},
                      {"cap", job.cap.count()},
                      {"waited_ms", ms(now - job.arrival)}};
  object["law"] = job.law ? json::value(law_object(*job.law, job.cap)) : json::value();
  return object;
}

}  // namespace

std::string queue_json(const dispatch::Dispatcher& dispatcher,
                       const AdminActions::PolicyState& policy, MonoTime now,
                       std::size_t jobs_max) {
  json::array pools;
  for (const auto& pool : dispatcher.pools(now)) {
    json::array jobs;
    for (const auto* job : dispatcher.queue(pool.model, now, jobs_max)) {
      jobs.push_back(job_object(*job, now));
    }
    const auto wait = dispatcher.expected_wait(pool.model, now);
    pools.push_back(
        json::object{{"model", pool.model},
                     {"policy", pool.policy},
                     {"waiting", pool.waiting},
                     {"running", pool.running},
                     {"slots", pool.slots},
                     {"backends", pool.backends},
                     {"queued_bytes", pool.queued_bytes},
                     {"drain_per_second",
                      pool.drain_per_second ? json::value(*pool.drain_per_second) : json::value()},
                     {"oldest_wait_ms", ms(pool.oldest_wait)},
                     {"expected_wait_ms", ms(wait)},
                     {"jobs", std::move(jobs)}});
  }
  json::object document = policy_object(policy);
  document["pools"] = std::move(pools);
  return json::serialize(document);
}

std::string backends_json(const dispatch::Dispatcher& dispatcher, const Backends& backends,
                          MonoTime now) {
  json::array array;
  for (auto& object : backend_objects(dispatcher, backends, now))
    array.push_back(std::move(object));
  return json::serialize(json::object{{"backends", std::move(array)}});
}

std::optional<std::string> backend_json(const dispatch::Dispatcher& dispatcher,
                                        const Backends& backends, std::string_view name,
                                        MonoTime now) {
  for (const auto& object : backend_objects(dispatcher, backends, now)) {
    const auto& found = object.at("name").get_string();
    if (std::string_view(found.data(), found.size()) == name) return json::serialize(object);
  }
  return std::nullopt;
}

std::string policy_json(const AdminActions::PolicyState& policy) {
  return json::serialize(policy_object(policy));
}

std::string explain_json(const RequestRecord& record, const Result<dispatch::Explanation>& place,
                         const AdminActions::PolicyState& policy, MonoTime now) {
  const bool ended = !record.outcome.empty();
  json::object document{{"request_id", record.request_id},
                        {"state", record.state},
                        {"route", record.route},
                        {"model", text_or_null(record.model)},
                        {"tenant", text_or_null(record.tenant)},
                        {"stream", record.stream},
                        {"slots", record.slots},
                        {"priority", record.priority},
                        {"prompt_tokens", record.prompt_tokens.count()},
                        {"cap", record.cap.count()},
                        {"age_ms", ended ? ms(record.total) : ms(now - record.arrival)},
                        {"queue_ms", ms(record.queued)},
                        {"ttft_ms", ms(record.first_byte)},
                        {"backend", text_or_null(record.backend)},
                        {"attempts", record.attempts}};
  if (record.law) {
    json::object law = law_object(*record.law, record.cap);
    law["source"] = record.law_source;
    law["calibrated"] = record.calibrated;
    law["decides_order"] = record.law_orders;
    document["law"] = std::move(law);
  } else {
    document["law"] = nullptr;
  }
  document["place"] = nullptr;
  json::array notes;
  if (place) {
    if (place->place) {
      document["place"] = json::object{{"position", place->place->position},
                                       {"key", place->place->key},
                                       {"overdue", place->place->overdue},
                                       {"rule", place->place->rule},
                                       {"backends", place->backends}};
    }
    for (const auto& note : place->notes) notes.emplace_back(note);
  }
  document["notes"] = std::move(notes);
  document["policy"] = policy_object(policy);
  document["outcome"] = text_or_null(record.outcome);
  document["status"] = ended ? json::value(record.status) : json::value();
  document["output_tokens"] = ended ? json::value(record.output_tokens.count()) : json::value();
  document["output_estimated"] = record.output_estimated;
  document["error"] = text_or_null(record.error);
  return json::serialize(document);
}

std::string prediction_json(const predict::RequestFeatures& features,
                            const ExplainedPrediction& answer, bool orders) {
  const predict::Prediction& prediction = answer.prediction;
  json::object law = law_object(prediction.law, features.cap);
  json::object document{{"model", text_or_null(features.model)},
                        {"prompt_tokens", features.prompt_tokens.count()},
                        {"cap", features.cap.count()},
                        {"p50", law.at("p50")},
                        {"p90", law.at("p90")},
                        {"calibrated", prediction.calibrated},
                        {"would_decide_order", orders}};
  document["law"] = std::move(law);
  json::array influences;
  for (const auto& influence : answer.influences) {
    influences.push_back({{"what", text_or_null(influence.what)},
                          {"log_shift", influence.log_shift},
                          {"factor", std::exp(influence.log_shift)}});
  }
  document["influences"] = std::move(influences);
  return json::serialize(document);
}

}  // namespace tailrace::gateway
