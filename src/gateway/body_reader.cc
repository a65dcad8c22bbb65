#include "gateway/body_reader.h"

#include <simdjson.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tailrace::gateway {
namespace {

/// The last top-level "model" of a JSON object, or nothing.
std::string model_of(const std::string& body) {
  simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(body);
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  std::string model;
  if (parser.iterate(padded).get(document) || document.get_object().get(object)) return {};
  for (auto field : object) {
    std::string_view key;
    std::string_view value;
    if (field.unescaped_key().get(key)) return {};
    if (key == "model" && !field.value().get_string().get(value)) model = value;
  }
  return model;
}

}  // namespace

Result<ReadBody> read_whole_body(std::optional<Route> route,
                                 std::shared_ptr<const std::string> body) {
  if (!route) {
    ReadBody peeked;
    peeked.request.model = model_of(*body);
    peeked.body = std::move(body);
    return peeked;
  }
  auto request = read_request(*route, *body);
  if (!request) return fail(std::move(request.error()));
  ReadBody result;
  if (needs_usage_request(*request)) {
    result.with_usage = std::make_shared<const std::string>(with_usage_request(*body));
  }
  result.request = std::move(*request);
  result.body = std::move(body);
  return result;
}

namespace {

class InlineBodyReader final : public BodyReader {
 public:
  explicit InlineBodyReader(net::EventLoop& loop) : loop_(loop) {}
  void read(std::optional<Route> route, std::shared_ptr<const std::string> body,
            Done done) override {
    loop_.post([route, body = std::move(body), done = std::move(done)]() mutable {
      done(read_whole_body(route, std::move(body)));
    });
  }

 private:
  net::EventLoop& loop_;
};

/// The callbacks never leave the loop's thread: the worker sees bodies and numbers only.
struct Waiting {
  std::map<std::uint64_t, BodyReader::Done> done;
};

class ThreadedBodyReader final : public BodyReader {
 public:
  ThreadedBodyReader(net::EventLoop& loop, std::size_t inbox_max)
      : loop_(loop), inbox_max_(inbox_max), waiting_(std::make_shared<Waiting>()) {
    thread_ = std::thread([this, weak = std::weak_ptr<Waiting>(waiting_)] { run(weak); });
  }

  ~ThreadedBodyReader() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void read(std::optional<Route> route, std::shared_ptr<const std::string> body,
            Done done) override {
    const std::uint64_t number = ++last_number_;
    waiting_->done.emplace(number, std::move(done));
    bool full = false;
    {
      const std::lock_guard lock(mutex_);
      full = inbox_.size() >= inbox_max_;
      if (!full) inbox_.push_back({number, route, std::move(body)});
    }
    if (full) {
      deliver(
          waiting_, number,
          fail(ErrorCode::kResourceExhausted, "too many large requests at once; try again later"));
    } else {
      wake_.notify_one();
    }
  }

 private:
  struct Item {
    std::uint64_t number;
    std::optional<Route> route;
    std::shared_ptr<const std::string> body;
  };

  void deliver(const std::weak_ptr<Waiting>& waiting, std::uint64_t number,
               Result<ReadBody> result) {
    loop_.post([waiting, number, result = std::move(result)]() mutable {
      const auto target = waiting.lock();
      if (!target) return;
      auto node = target->done.extract(number);
      if (!node.empty()) node.mapped()(std::move(result));
    });
  }

  void run(const std::weak_ptr<Waiting>& waiting) {
    for (;;) {
      std::optional<Item> item;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
        if (stopping_) return;
        item = std::move(inbox_.front());
        inbox_.pop_front();
      }
      deliver(waiting, item->number, read_whole_body(item->route, std::move(item->body)));
    }
  }

  net::EventLoop& loop_;
  std::size_t inbox_max_;
  std::shared_ptr<Waiting> waiting_;
  std::uint64_t last_number_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> inbox_;  // guarded by mutex_
  bool stopping_ = false;   // guarded by mutex_
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BodyReader> make_inline_body_reader(net::EventLoop& loop) {
  return std::make_unique<InlineBodyReader>(loop);
}

std::unique_ptr<BodyReader> make_threaded_body_reader(net::EventLoop& loop, std::size_t inbox_max) {
  return std::make_unique<ThreadedBodyReader>(loop, inbox_max);
}

}  // namespace tailrace::gateway
