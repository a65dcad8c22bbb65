// A watch: list, then follow the changes, through every interruption.
#include <fmt/format.h>

#include <algorithm>

#include "kubernetes/api_core.h"
#include "kubernetes/documents.h"

namespace tailrace::kubernetes {
namespace {

constexpr double kFirstPause_s = 0.5;
/// A watch that ended before this is taken for a failed attempt, so that a server which accepts and
/// closes is not asked without a pause.
constexpr double kShortWatch_s = 2;
/// The server ends a watch by itself after watch_s; later than this the connection is dead.
constexpr double kIdleMargin_s = 15;

class WatchCall final : public ApiCall, public std::enable_shared_from_this<WatchCall> {
 public:
  WatchCall(std::shared_ptr<ApiCore> core, std::string path, WatchHandlers handlers)
      : core_(std::move(core)), path_(std::move(path)), handlers_(std::move(handlers)) {}

  void start() { list(); }
  void cancel() {
    ended_ = true;
    listing_.reset();
    call_.reset();
    pause_.reset();
  }

 private:
  // ---- Listing

  void list() {
    version_.clear();
    listing_ = start_list(core_, path_, [this](Result<ListedObjects> listed) {
      const auto self = shared_from_this();
      if (!listed) return interrupted(listed.error(), 0);
      take_list(*listed);
    });
  }

  void take_list(const ListedObjects& listed) {
    if (!report(handlers_.on_restart)) return;
    for (const std::string& object : listed.items) {
      if (!report(handlers_.on_event, std::string_view("ADDED"), std::string_view(object))) return;
    }
    if (!report(handlers_.on_synced)) return;
    version_ = listed.resource_version;
    follow();
  }

  // ---- Following

  void follow() {
    std::string path = with_query(path_, "watch", "1");
    path = with_query(std::move(path), "allowWatchBookmarks", "true");
    path = with_query(std::move(path), "resourceVersion", version_);
    path =
        with_query(std::move(path), "timeoutSeconds", fmt::format("{:.0f}", core_->config.watch_s));
    line_.clear();
    status_ = 0;
    began_ = core_->loop.now();
    net::CallHandlers handlers;
    handlers.on_head = [this](const net::ResponseHead& head) {
      status_ = head.status;
      retry_after_s_ = retry_after(head.headers).value_or(0);
    };
    handlers.on_body = [this](std::string_view bytes) {
      const auto self = shared_from_this();
      take_bytes(bytes);
    };
    handlers.on_end = [this] {
      const auto self = shared_from_this();
      ended_by_server();
    };
    handlers.on_error = [this](const net::CallError& error) {
      const auto self = shared_from_this();
      interrupted(error.error.with_context(subject()), 0);
    };
    net::CallTimeouts timeouts = core_->timeouts(core_->config.request_timeout_s);
    timeouts.idle = from_seconds(core_->config.watch_s + kIdleMargin_s);
    call_ = core_->client->start(core_->access.server.endpoint, core_->head("GET", path), nullptr,
                                 timeouts, std::move(handlers));
  }

  void take_bytes(std::string_view bytes) {
    if (status_ != 200) {  // a refusal: one document
      line_.append(bytes.substr(0, core_->config.line_bytes_max - line_.size()));
      return;
    }
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view piece = bytes.substr(0, end);
      if (line_.size() + piece.size() > core_->config.line_bytes_max) {
        return relist({ErrorCode::kDataLoss, fmt::format("{}: an event longer than {} bytes",
                                                         subject(), core_->config.line_bytes_max)});
      }
      line_.append(piece);
      if (end == std::string_view::npos) return;
      bytes.remove_prefix(end + 1);
      if (!line_.empty() && !take_line()) return;
      line_.clear();
    }
  }

  /// False when the stream is not to be read on.
  bool take_line() {
    WatchLine line;
    const auto read = read_watch_line(line_, line);
    if (read) return take_event(line);
    relist(read.error().with_context(subject()));
    return false;
  }

  bool take_event(WatchLine& line) {
    if (line.type == "ERROR") {
      relist(
          {ErrorCode::kUnavailable, fmt::format("{}: the server ended the watch with {}: {}",
                                                subject(), line.error_status, line.error_message)});
      return false;
    }
    version_ = std::move(line.resource_version);
    attempts_ = 0;
    if (line.type == "BOOKMARK") return true;
    return report(handlers_.on_event, std::string_view(line.type), std::string_view(line.object));
  }

  void ended_by_server() {
    if (status_ != 200) {
      const ApiAnswer answer{status_, line_, std::nullopt};
      ApiRequest request;
      request.path = path_;
      Error error = error_of(request, answer);
      // Where our place is forgotten or refused, only a new list helps.
      if (status_ == 410 || status_ / 100 == 4) version_.clear();
      return interrupted(error, retry_after_s_);
    }
    if (to_seconds(core_->loop.now() - began_) < kShortWatch_s) {
      return interrupted({ErrorCode::kUnavailable, subject() + ": the server closed it at once"},
                         0);
    }
    attempts_ = 0;
    again(Duration{0});
  }

  // ---- Going on

  void relist(const Error& error) {
    version_.clear();
    interrupted(error, 0);
  }

  void interrupted(const Error& error, double pause_at_least_s) {
    if (!report(handlers_.on_interrupted, error)) return;
    const Duration pause = core_->pause(kFirstPause_s, attempts_, core_->config.watch_pause_max_s);
    ++attempts_;
    again(std::max(pause, from_seconds(pause_at_least_s)));
  }

  void again(Duration pause) {
    call_.reset();
    pause_ = core_->loop.after(pause, [this] {
      const auto self = shared_from_this();
      if (version_.empty()) return list();
      follow();
    });
  }

  std::string subject() const { return "watch of " + path_.substr(0, path_.find('?')); }

  /// False when the handler has ended the watch.
  template <class Handler, class... Args>
  bool report(Handler& handler, Args&&... args) {
    if (handler) handler(std::forward<Args>(args)...);
    return !ended_;
  }

  std::shared_ptr<ApiCore> core_;
  const std::string path_;
  WatchHandlers handlers_;
  std::string version_;  ///< up to which everything is known; "": nothing is
  std::string line_;     ///< that is not complete; of a refusal, its document
  int status_ = 0;
  double retry_after_s_ = 0;
  int attempts_ = 0;  ///< without an event since
  MonoTime began_{};
  bool ended_ = false;
  std::unique_ptr<ApiCall> listing_;
  std::unique_ptr<net::Call> call_;
  std::unique_ptr<net::Timer> pause_;
};

/// What the caller holds; a handler that destroys it must not destroy the watch under its feet.
class WatchHandle final : public ApiCall {
 public:
  explicit WatchHandle(std::shared_ptr<WatchCall> call) : call_(std::move(call)) {}
  ~WatchHandle() override { call_->cancel(); }

 private:
  std::shared_ptr<WatchCall> call_;
};

}  // namespace

std::unique_ptr<ApiCall> start_watch(std::shared_ptr<ApiCore> core, std::string path,
                                     WatchHandlers handlers) {
  auto call = std::make_shared<WatchCall>(std::move(core), std::move(path), std::move(handlers));
  call->start();
  return std::make_unique<WatchHandle>(std::move(call));
}

}  // namespace tailrace::kubernetes
