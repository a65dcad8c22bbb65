#include "kubernetes/support/fake_api.h"

#include <fmt/format.h>

#include "support/percent.h"
#include "tailrace/core/check.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes::testing {

namespace json = boost::json;

namespace {

std::string status_document(int code, std::string_view reason, const std::string& message) {
  return json::serialize(json::object{{"kind", "Status"},
                                      {"apiVersion", "v1"},
                                      {"metadata", json::object{}},
                                      {"status", "Failure"},
                                      {"message", message},
                                      {"reason", reason},
                                      {"code", code}});
}

/// RFC 7396.
void merge(json::value& into, const json::value& patch) {
  if (!patch.is_object()) {
    into = patch;
    return;
  }
  if (!into.is_object()) into = json::object{};
  for (const auto& [key, value] : patch.get_object()) {
    if (value.is_null()) {
      into.get_object().erase(key);
    } else {
      merge(into.get_object()[key], value);
    }
  }
}

std::string text_at(const json::object& object, std::string_view pointer) {
  const json::value whole(object);
  json::error_code ec;
  const json::value* const found =
      whole.find_pointer(json::string_view(pointer.data(), pointer.size()), ec);
  if (found == nullptr) return "";
  return found->is_string() ? std::string(found->get_string()) : json::serialize(*found);
}

std::string version_of(const json::object& object) {
  return text_at(object, "/metadata/resourceVersion");
}

bool selected(const json::object& object, const std::string& selector) {
  if (selector.empty()) return true;
  for (const std::string_view term : core::split(selector, ',')) {
    const std::size_t equals = term.find('=');
    std::string key(term.substr(0, equals));
    for (std::size_t i = 0; (i = key.find_first_of("~/", i)) != std::string::npos; i += 2) {
      key.replace(i, 1, key[i] == '~' ? "~0" : "~1");
    }
    const std::string value = text_at(object, "/metadata/labels/" + key);
    if (equals == std::string_view::npos ? value.empty() : value != term.substr(equals + 1)) {
      return false;
    }
  }
  return true;
}

std::optional<json::object> body_of(const SeenRequest& request) {
  json::error_code ec;
  const json::value parsed = json::parse(request.body, ec);
  if (ec || !parsed.is_object()) return std::nullopt;
  return parsed.get_object();
}

const std::string& not_json() {
  static const std::string kDocument =
      status_document(400, "BadRequest", "the object provided is unrecognized");
  return kDocument;
}

std::string conflict(const std::string& plural, const std::string& name) {
  return status_document(409, "Conflict",
                         fmt::format("Operation cannot be fulfilled on {} \"{}\": the object has "
                                     "been modified; please apply your changes to the latest "
                                     "version and try again",
                                     plural, name));
}

}  // namespace

/// "/apis/apps/v1/namespaces/llm/deployments/a/scale?x=y", taken apart.
struct FakeApi::Target {
  std::string group_path;  ///< "/apis/apps/v1"
  std::string ns, resource, name, subresource;
  std::map<std::string, std::string> query;

  explicit Target(const std::string& target) {
    const std::size_t mark = target.find('?');
    std::vector<std::string> parts;
    for (const std::string_view part : core::split(std::string_view(target).substr(0, mark), '/')) {
      if (!part.empty()) parts.emplace_back(part);
    }
    std::size_t next =
        std::min<std::size_t>(parts.size(), !parts.empty() && parts[0] == "apis" ? 3 : 2);
    for (std::size_t i = 0; i < next; ++i) group_path += "/" + parts[i];
    if (parts.size() > next + 2 && parts[next] == "namespaces") {
      ns = parts[next + 1];
      next += 2;
    }
    if (next < parts.size()) resource = parts[next];
    if (next + 1 < parts.size()) name = parts[next + 1];
    if (next + 2 < parts.size()) subresource = parts[next + 2];
    if (mark == std::string::npos) return;
    for (const std::string_view pair :
         core::split(std::string_view(target).substr(mark + 1), '&')) {
      const std::size_t equals = pair.find('=');
      query[std::string(pair.substr(0, equals))] =
          equals == std::string_view::npos ? "" : percent_decoded(pair.substr(equals + 1));
    }
  }
  std::string asked(const std::string& key) const {
    const auto found = query.find(key);
    return found == query.end() ? "" : found->second;
  }
  std::string object_path(const std::string& of) const {
    return group_path + (ns.empty() ? "" : "/namespaces/" + ns) + "/" + resource + "/" + of;
  }
  bool holds(const std::string& path) const {
    const Target other(path);
    return other.group_path == group_path && other.resource == resource &&
           (ns.empty() || ns == other.ns);
  }
  std::string plural() const {
    const std::size_t begin = group_path.starts_with("/apis/") ? 6 : std::string::npos;
    if (begin == std::string::npos) return resource;
    return resource + "." + group_path.substr(begin, group_path.find('/', begin) - begin);
  }
};

struct FakeApi::Watch {
  std::shared_ptr<net::Exchange> exchange;
  Target target;
  std::int64_t from;
  std::unique_ptr<net::Timer> end;
};

FakeApi::FakeApi(net::SimLoop& loop, net::SimNetwork& network) : loop_(loop), network_(network) {
  start();
}
FakeApi::~FakeApi() = default;

void FakeApi::start() {
  auto made = net::HttpServer::listen(
      loop_, network_, endpoint(), {},
      [this](const std::shared_ptr<net::Exchange>& exchange) { handle(exchange); });
  TAILRACE_CHECK(made.has_value());
  server_ = std::move(*made);
}

void FakeApi::stop() {
  delayed_.clear();
  watches_.clear();
  server_.reset();
}

ApiAccess FakeApi::access() const {
  ApiAccess access;
  access.server = {endpoint(), ""};
  access.ns = "llm";
  return access;
}

std::string FakeApi::dotted(const std::string& path, std::string_view pointer) const {
  return text_at(objects_.at(path), pointer);
}

int FakeApi::count(std::string_view method, std::string_view part) const {
  int found = 0;
  for (const SeenRequest& request : seen) {
    if (request.method == method && request.target.find(part) != std::string::npos) ++found;
  }
  return found;
}

// ---- Objects

void FakeApi::write(const std::string& path, json::object object, std::string_view type) {
  ++version_;
  object["metadata"].as_object()["resourceVersion"] = std::to_string(version_);
  Change change{version_, std::string(type), path, object};
  if (type == "DELETED") {
    objects_.erase(path);
  } else {
    objects_[path] = std::move(object);
  }
  changes_.push_back(change);
  notify(change);
}

void FakeApi::put(const std::string& path, std::string_view text) {
  const Target target(path);
  json::object object = json::parse(json::string_view(text.data(), text.size())).as_object();
  json::object& metadata = object["metadata"].is_object() ? object["metadata"].get_object()
                                                          : object["metadata"].emplace_object();
  metadata["name"] = target.name;
  if (!target.ns.empty()) metadata["namespace"] = target.ns;
  const bool there = objects_.contains(path);
  metadata["uid"] = there ? dotted(path, "/metadata/uid") : fmt::format("uid-{}", ++uids_);
  if (!metadata.contains("creationTimestamp"))
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z";
  write(path, std::move(object), there ? "MODIFIED" : "ADDED");
}

void FakeApi::remove(const std::string& path) {
  const auto found = objects_.find(path);
  if (found == objects_.end()) return;
  json::object last = found->second;
  write(path, std::move(last), "DELETED");
}

// ---- Requests

void FakeApi::handle(const std::shared_ptr<net::Exchange>& exchange) {
  exchange->read_body(16 << 20, [this, exchange](Result<std::string> body) {
    if (!body) return;
    const auto header = [&](std::string_view name) {
      return std::string(exchange->head().headers.find(name).value_or(""));
    };
    SeenRequest request{exchange->head().method, exchange->head().target, std::move(*body),
                        header("authorization"), header("content-type")};
    seen.push_back(request);
    const auto wrong = fault ? fault(request) : std::nullopt;
    if (!wrong) return serve(exchange, request);
    auto suffer = [this, exchange, request, wrong = *wrong] {
      if (wrong.cut_before) return exchange->abort();
      if (wrong.status != 0) {
        net::ResponseHead head{wrong.status, "", {{"Content-Type", "application/json"}}};
        if (wrong.retry_after_s)
          head.headers.add("Retry-After", std::to_string(*wrong.retry_after_s));
        return exchange->respond(std::move(head), wrong.body);
      }
      if (!wrong.cut_after) return serve(exchange, request);
      [[maybe_unused]] const Answer lost = carry_out(request);
      exchange->abort();
    };
    if (wrong->delay == Duration{0}) return suffer();
    delayed_.push_back(loop_.after(wrong->delay, std::move(suffer)));
  });
}

void FakeApi::serve(const std::shared_ptr<net::Exchange>& exchange, const SeenRequest& request) {
  const Target target(request.target);
  if (request.method == "GET" && target.asked("watch") == "1") return start_watch(exchange, target);
  const Answer answer = carry_out(request);
  exchange->respond({answer.status, "", {{"Content-Type", "application/json"}}}, answer.body);
}

FakeApi::Answer FakeApi::carry_out(const SeenRequest& request) {
  const Target target(request.target);
  if (unserved.contains(target.group_path)) return {404, "404 page not found\n"};
  if (request.method == "GET" && target.name.empty()) return list(target);
  if (request.method == "POST") return create(target, request);
  const std::string path = target.object_path(target.name);
  if (!objects_.contains(path)) {
    const auto object = request.method == "PUT" ? body_of(request) : std::nullopt;
    if (object && !version_of(*object).empty())
      return {409, conflict(target.plural(), target.name)};
    return {404, status_document(404, "NotFound",
                                 fmt::format("{} \"{}\" not found", target.plural(), target.name))};
  }
  if (request.method == "GET") {
    if (target.subresource == "scale") return scale_of(target);
    return {200, json::serialize(objects_.at(path))};
  }
  if (request.method == "PUT") return replace(target, request);
  if (request.method == "PATCH") return patch(target, request);
  if (request.method == "DELETE") return erase(target);
  return {405, status_document(405, "MethodNotAllowed", "the server does not allow this method")};
}

FakeApi::Answer FakeApi::list(const Target& target) {
  const std::string selector = target.asked("labelSelector");
  const auto limit = core::parse_int(target.asked("limit")).value_or(0);
  std::int64_t version = version_;
  std::string after;
  if (const std::string token = target.asked("continue"); !token.empty()) {
    version = core::parse_int(token.substr(0, token.find(':'))).value_or(0);
    after = token.substr(token.find(':') + 1);
    if (version < compacted_) {
      return {410, status_document(410, "Expired",
                                   "The provided continue parameter is too old to display a "
                                   "consistent list result.")};
    }
  }
  json::array items;
  std::string last;
  bool more = false;
  for (const auto& [path, object] : objects_) {
    if (path <= after || !target.holds(path) || !selected(object, selector)) continue;
    if (limit > 0 && std::ssize(items) == limit) {
      more = true;
      break;
    }
    items.push_back(object);
    last = path;
  }
  json::object metadata{{"resourceVersion", std::to_string(version)}};
  if (more) metadata["continue"] = fmt::format("{}:{}", version, last);
  return {200, json::serialize(json::object{{"kind", "List"},
                                            {"apiVersion", "v1"},
                                            {"metadata", std::move(metadata)},
                                            {"items", std::move(items)}})};
}

FakeApi::Answer FakeApi::create(const Target& target, const SeenRequest& request) {
  const auto object = body_of(request);
  if (!object) return {400, not_json()};
  const std::string name = text_at(*object, "/metadata/name");
  if (name.empty()) {
    return {422, status_document(422, "Invalid", "metadata.name: Required value")};
  }
  const std::string path = target.object_path(name);
  if (objects_.contains(path)) {
    return {409, status_document(409, "AlreadyExists",
                                 fmt::format("{} \"{}\" already exists", target.plural(), name))};
  }
  put(path, request.body);
  return {201, json::serialize(objects_.at(path))};
}

FakeApi::Answer FakeApi::replace(const Target& target, const SeenRequest& request) {
  const auto object = body_of(request);
  if (!object) return {400, not_json()};
  const std::string path = target.object_path(target.name);
  const std::string version = version_of(*object);
  if (!version.empty() && version != version_of(objects_.at(path))) {
    return {409, conflict(target.plural(), target.name)};
  }
  put(path, request.body);
  return {200, json::serialize(objects_.at(path))};
}

FakeApi::Answer FakeApi::patch(const Target& target, const SeenRequest& request) {
  const auto change = body_of(request);
  if (!change) return {400, not_json()};
  if (request.content_type != kMergePatch) {
    return {415, status_document(415, "UnsupportedMediaType",
                                 "the body of the request was in an unknown format")};
  }
  const std::string path = target.object_path(target.name);
  const std::string version = version_of(*change);
  if (!version.empty() && version != version_of(objects_.at(path))) {
    return {409, conflict(target.plural(), target.name)};
  }
  if (target.subresource == "scale") return patch_scale(target, *change);
  json::value merged(objects_.at(path));
  merge(merged, *change);
  if (merged.get_object() == objects_.at(path)) return {200, json::serialize(merged)};
  write(path, std::move(merged.get_object()), "MODIFIED");
  return {200, json::serialize(objects_.at(path))};
}

FakeApi::Answer FakeApi::erase(const Target& target) {
  remove(target.object_path(target.name));
  return {200, json::serialize(json::object{{"kind", "Status"},
                                            {"apiVersion", "v1"},
                                            {"metadata", json::object{}},
                                            {"status", "Success"}})};
}

FakeApi::Answer FakeApi::scale_of(const Target& target) {
  const json::object& object = objects_.at(target.object_path(target.name));
  const auto number = [&](std::string_view pointer) {
    return core::parse_int(text_at(object, pointer)).value_or(0);
  };
  json::object spec, status{{"replicas", number("/status/replicas")}};
  if (const auto* const asked = object.if_contains("spec")) {
    json::error_code ec;
    const json::value* const labels = asked->find_pointer("/selector/matchLabels", ec);
    std::string terms;
    if (labels != nullptr) {
      for (const auto& [key, value] : labels->as_object()) {
        terms += fmt::format("{}{}={}", terms.empty() ? "" : ",",
                             std::string_view(key.data(), key.size()), value.as_string().c_str());
      }
      status["selector"] = terms;
    }
  }
  if (const auto replicas = number("/spec/replicas"); replicas != 0) spec["replicas"] = replicas;
  return {200, json::serialize(
                   json::object{{"kind", "Scale"},
                                {"apiVersion", "autoscaling/v1"},
                                {"metadata", json::object{{"name", target.name},
                                                          {"namespace", target.ns},
                                                          {"uid", text_at(object, "/metadata/uid")},
                                                          {"resourceVersion", version_of(object)}}},
                                {"spec", std::move(spec)},
                                {"status", std::move(status)}})};
}

FakeApi::Answer FakeApi::patch_scale(const Target& target, const json::object& change) {
  const auto wanted = core::parse_int(text_at(change, "/spec/replicas"));
  if (!wanted) return scale_of(target);
  if (*wanted < 0) {
    return {422,
            status_document(422, "Invalid",
                            fmt::format("Scale.autoscaling \"{}\" is invalid: spec.replicas: "
                                        "Invalid value: {}: must be greater than or equal to 0",
                                        target.name, *wanted))};
  }
  const std::string path = target.object_path(target.name);
  json::object object = objects_.at(path);
  if (core::parse_int(text_at(object, "/spec/replicas")) != wanted) {
    object["spec"].as_object()["replicas"] = *wanted;
    write(path, std::move(object), "MODIFIED");
  }
  return scale_of(target);
}

// ---- Watches

namespace {
std::string event_line(std::string_view type, const json::value& object) {
  return json::serialize(json::object{{"type", type}, {"object", object}}) + "\n";
}
}  // namespace

void FakeApi::start_watch(const std::shared_ptr<net::Exchange>& exchange, const Target& target) {
  const auto from = core::parse_int(target.asked("resourceVersion")).value_or(0);
  exchange->begin({200, "", {{"Content-Type", "application/json"}}});
  if (from < compacted_) {
    exchange->write(event_line(
        "ERROR",
        json::parse(status_document(
            410, "Expired", fmt::format("too old resource version: {} ({})", from, version_)))));
    return exchange->finish();
  }
  auto watch = std::make_shared<Watch>(Watch{exchange, target, from, nullptr});
  const auto drop = [this, weak = std::weak_ptr<Watch>(watch)] {
    if (const auto held = weak.lock()) watches_.remove(held);
  };
  exchange->on_client_gone(drop);
  if (const auto seconds = core::parse_int(target.asked("timeoutSeconds"))) {
    watch->end = loop_.after(std::chrono::seconds(*seconds), [exchange, drop] {
      exchange->finish();
      drop();
    });
  }
  watches_.push_back(watch);
  for (const Change& change : changes_) {
    if (change.version > from && target.holds(change.path) &&
        selected(change.object, target.asked("labelSelector"))) {
      exchange->write(event_line(change.type, change.object));
    }
  }
}

void FakeApi::notify(const Change& change) {
  for (const auto& watch : watches_) {
    if (watch->target.holds(change.path) &&
        selected(change.object, watch->target.asked("labelSelector"))) {
      watch->exchange->write(event_line(change.type, change.object));
    }
  }
}

void FakeApi::bookmark() {
  say_on_watches(event_line(
      "BOOKMARK",
      json::object{{"metadata", json::object{{"resourceVersion", std::to_string(version_)}}}}));
}

void FakeApi::say_on_watches(std::string_view line) {
  for (const auto& watch : watches_) watch->exchange->write(std::string(line));
}

void FakeApi::end_watches() {
  for (const auto& watch : watches_) watch->exchange->finish();
  watches_.clear();
}

}  // namespace tailrace::kubernetes::testing
