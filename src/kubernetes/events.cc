#include "tailrace/kubernetes/events.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <map>

#include "kubernetes/lease_document.h"
#include "tailrace/core/log.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes {
namespace {

namespace json = boost::json;

// The server's limits.
constexpr std::size_t kNoteBytesMax = 1024;
constexpr std::size_t kReasonBytesMax = 128;
constexpr std::size_t kNameBytesMax = 200;

std::string cut(std::string_view text, std::size_t bytes_max) {
  return core::valid_utf8(core::utf8_prefix(text, bytes_max));
}

class Recorder final : public EventRecorder {
 public:
  Recorder(Api& api, const Calendar& calendar, EventsConfig config)
      : api_(api), calendar_(calendar), config_(std::move(config)) {}

  void record(std::uint64_t cycle, EventNote note) override {
    const std::string key = note.about.kind + " " + note.about.ns + "/" + note.about.name;
    const auto [found, fresh] = subjects_.try_emplace(key);
    Subject& subject = found->second;
    if (!fresh && subject.cycle == cycle) return;  // one for each cycle is enough
    subject.cycle = cycle;
    const std::string said = note.reason + "\n" + note.note;
    if (!fresh && subject.said == said) return repeat(key, subject, note.about.ns);
    subject.said = said;
    subject.times = 1;
    create(key, subject, note);
    if (subjects_.size() > config_.subjects_max) forget_oldest(key);
  }
  const EventsSeen& seen() const override { return seen_; }

 private:
  struct Subject {
    std::uint64_t cycle = 0;
    std::string said;  ///< last
    std::string name;  ///< of the Event
    std::uint64_t times = 0;
    double written_s = 0;
  };

  static std::string folder(const std::string& ns) {
    return "/apis/events.k8s.io/v1/namespaces/" + (ns.empty() ? "default" : ns) + "/events";
  }

  void create(const std::string& key, Subject& subject, const EventNote& note) {
    const double now_s = calendar_.unix_s();
    subject.written_s = now_s;
    subject.name = fmt::format("{}.{:016x}", cut(note.about.name, kNameBytesMax),
                               stable_hash(key + config_.instance + micro_time(now_s), ++created_));
    json::object about{{"apiVersion", note.about.api_version},
                       {"kind", note.about.kind},
                       {"name", note.about.name},
                       {"namespace", note.about.ns}};
    if (!note.about.uid.empty()) about["uid"] = note.about.uid;
    const std::string reason = cut(note.reason, kReasonBytesMax);
    const json::object event{
        {"apiVersion", "events.k8s.io/v1"},
        {"kind", "Event"},
        {"metadata",
         json::object{{"name", subject.name},
                      {"namespace", note.about.ns.empty() ? "default" : note.about.ns}}},
        {"eventTime", micro_time(now_s)},
        {"reportingController", cut(config_.controller, kReasonBytesMax)},
        {"reportingInstance",
         cut(config_.instance.empty() ? "tailrace" : config_.instance, kReasonBytesMax)},
        {"type", note.warning ? "Warning" : "Normal"},
        {"reason", reason},
        {"action", note.action.empty() ? reason : cut(note.action, kReasonBytesMax)},
        {"note", cut(note.note, kNoteBytesMax)},
        {"regarding", std::move(about)}};
    ApiRequest request;
    request.method = "POST";
    request.path = folder(note.about.ns);
    request.body = json::serialize(event);
    post(key, std::move(request), seen_.sent);
  }

  void repeat(const std::string& key, Subject& subject, const std::string& ns) {
    ++subject.times;
    const double now_s = calendar_.unix_s();
    // A calendar that was set back must not silence what is said again.
    const double passed_s = now_s - subject.written_s;
    if (passed_s >= 0 && passed_s < config_.repeat_s) return;
    subject.written_s = now_s;
    ApiRequest request;
    request.method = "PATCH";
    request.path = folder(ns) + "/" + subject.name;
    request.content_type = kMergePatch;
    request.body = json::serialize(
        json::object{{"series", json::object{{"count", subject.times},
                                             {"lastObservedTime", micro_time(now_s)}}}});
    post(key, std::move(request), seen_.repeated);
  }

  void post(const std::string& key, ApiRequest request, std::uint64_t& counter) {
    if (waiting_.size() >= config_.waiting_max) {
      ++seen_.dropped;
      return;
    }
    const std::uint64_t id = ++posted_;
    const ApiRequest copy = request;
    waiting_[id] = api_.send(std::move(request),
                             [this, id, key, copy, &counter](const Result<ApiAnswer>& answer) {
                               if (answer && answer->ok()) {
                                 ++counter;
                                 failing_ = false;
                               } else {
                                 failed(key, answer ? error_of(copy, *answer) : answer.error());
                               }
                               waiting_.erase(id);
                             });
  }

  void failed(const std::string& key, const Error& error) {
    ++seen_.failed;
    // The Event may not be there, or no more: what is said next makes a new one.
    if (const auto found = subjects_.find(key); found != subjects_.end()) {
      found->second.said.clear();
    }
    // Said once until it works again: a missing permission would fill the log.
    if (!std::exchange(failing_, true)) {
      log::warn("kubernetes_event_not_sent", {{"error", error.message}});
    }
  }

  void forget_oldest(const std::string& but) {
    auto oldest = subjects_.end();
    for (auto it = subjects_.begin(); it != subjects_.end(); ++it) {
      if (it->first == but) continue;
      if (oldest == subjects_.end() || it->second.written_s < oldest->second.written_s) oldest = it;
    }
    if (oldest != subjects_.end()) subjects_.erase(oldest);
  }

  Api& api_;
  const Calendar& calendar_;
  const EventsConfig config_;
  std::map<std::string, Subject> subjects_;
  std::map<std::uint64_t, std::unique_ptr<ApiCall>> waiting_;
  EventsSeen seen_;
  std::uint64_t created_ = 0, posted_ = 0;
  bool failing_ = false;
};

}  // namespace

std::unique_ptr<EventRecorder> EventRecorder::make(Api& api, const Calendar& calendar,
                                                   EventsConfig config) {
  return std::make_unique<Recorder>(api, calendar, std::move(config));
}

}  // namespace tailrace::kubernetes
