#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tailrace/core/log.h"
#include "tailrace/core/text.h"
#include "tailrace/gateway/prediction_runner.h"

namespace tailrace::gateway {
namespace {

struct Forget {
  JobId id;
};
struct Observe {
  predict::RequestFeatures features;
  predict::Observation observation;
};
struct Explain {
  JobId id;
  predict::RequestFeatures features;
};
using Message = std::variant<predict::PredictRequest, Forget, Observe, Explain>;

using Results = std::vector<std::pair<JobId, predict::Prediction>>;

/// What the loop's thread owns of the way back; results that arrive after the runner's end find it
/// gone.
struct Delivery {
  PredictionRunner::OnResult handler;
  PredictionRunner::OnExplained explained;
};

void load_model(predict::Predictor& predictor, const PredictionThreadOptions& options) {
  if (options.model_file.empty()) return;
  std::error_code unknown;
  const auto kind = std::filesystem::status(options.model_file, unknown).type();
  if (kind != std::filesystem::file_type::regular &&
      kind != std::filesystem::file_type::not_found) {
    // A folder must not be moved aside, and opening a pipe would wait for its other end.
    log::warn("model_unusable", {{"file", options.model_file},
                                 {"error", "it is not a regular file"},
                                 {"effect", "what is learned cannot be kept"}});
    return;
  }
  auto image = core::read_regular_file(options.model_file, options.model_bytes_max);
  if (!image && image.error().code == ErrorCode::kNotFound) {
    log::info("model_new", {{"file", options.model_file}});
    return;
  }
  Result<void> loaded = image ? predictor.load(*image) : fail(image.error());
  if (loaded) {
    log::info("model_loaded",
              {{"file", options.model_file}, {"bytes", static_cast<std::uint64_t>(image->size())}});
    return;
  }
  // Kept for a look, and out of the way of the next save.
  const std::string aside = options.model_file + ".damaged";
  const bool moved = std::rename(options.model_file.c_str(), aside.c_str()) == 0;
  log::warn("model_unusable", {{"file", options.model_file},
                               {"error", loaded.error().message},
                               {"moved_to", moved ? std::string_view(aside) : "nowhere"},
                               {"effect", "learning starts afresh"}});
}

class ThreadedPredictionRunner final : public PredictionRunner {
 public:
  ThreadedPredictionRunner(net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor,
                           PredictionThreadOptions options)
      : loop_(loop),
        predictor_(std::move(predictor)),
        options_(std::move(options)),
        delivery_(std::make_shared<Delivery>()) {
    load_model(*predictor_, options_);
    thread_ = std::thread([this, weak = std::weak_ptr<Delivery>(delivery_)] { run(weak); });
  }

  ~ThreadedPredictionRunner() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void on_result(OnResult handler) override { delivery_->handler = std::move(handler); }
  void on_explained(OnExplained handler) override { delivery_->explained = std::move(handler); }

  bool predict(JobId id, predict::RequestFeatures features) override {
    // Results that the loop has not taken yet count against the same limit: the way back is bounded
    // too.
    if (undelivered_->load(std::memory_order_relaxed) >= options_.inbox_max) return refuse();
    return send(predict::PredictRequest{id, std::move(features)});
  }

  bool explain(JobId id, predict::RequestFeatures features) override {
    return send(Explain{id, std::move(features)});
  }

  void forget(JobId id) override { send(Forget{id}); }

  bool observe(predict::RequestFeatures features, predict::Observation observation) override {
    return send(Observe{std::move(features), observation});
  }

  std::uint64_t dropped() const override { return dropped_.load(std::memory_order_relaxed); }

 private:
  bool refuse() {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

  bool send(Message message) {
    {
      const std::lock_guard lock(mutex_);
      if (inbox_.size() >= options_.inbox_max) return refuse();
      inbox_.push_back(std::move(message));
    }
    wake_.notify_one();
    return true;
  }

  void run(const std::weak_ptr<Delivery>& delivery) {
    SteadyClock clock;
    predict::Batcher batcher(options_.batcher);
    MonoTime next_save = clock.now() + options_.save_every;
    bool learned = false;
    for (;;) {
      std::deque<Message> messages;
      bool stopping = false;
      {
        std::unique_lock lock(mutex_);
        MonoTime wake_at = next_save;
        if (auto due = batcher.due()) wake_at = std::min(wake_at, *due);
        const Duration wait = wake_at - clock.now();
        if (wait > Duration::zero()) {
          wake_.wait_for(lock, wait, [this] { return stopping_ || !inbox_.empty(); });
        }
        messages.swap(inbox_);
        stopping = stopping_;
      }
      for (Message& message : messages) learned |= handle(message, batcher, clock.now(), delivery);
      for (auto batch = batcher.take(clock.now()); !batch.empty();
           batch = batcher.take(clock.now())) {
        answer(batch, delivery);
      }
      if (stopping || clock.now() >= next_save) {
        if (learned) save();
        learned = false;
        next_save = clock.now() + options_.save_every;
      }
      if (stopping) return;
    }
  }

  /// True if the predictor has learned something.
  bool handle(Message& message, predict::Batcher& batcher, MonoTime now,
              const std::weak_ptr<Delivery>& delivery) {
    if (auto* request = std::get_if<predict::PredictRequest>(&message)) {
      if (!batcher.add(std::move(*request), now)) refuse();
      return false;
    }
    if (auto* forget = std::get_if<Forget>(&message)) {
      batcher.remove(forget->id);
      return false;
    }
    if (auto* question = std::get_if<Explain>(&message)) {
      auto answer = explained(*predictor_, question->features);
      if (!answer) return false;
      loop_.post([delivery, id = question->id, answer = std::move(*answer)] {
        const auto target = delivery.lock();
        if (target && target->explained) target->explained(id, answer);
      });
      return false;
    }
    auto& observe = std::get<Observe>(message);
    predictor_->observe(observe.features, observe.observation);
    return true;
  }

  void answer(std::vector<predict::PredictRequest>& batch,
              const std::weak_ptr<Delivery>& delivery) {
    std::vector<predict::RequestFeatures> features;
    features.reserve(batch.size());
    for (auto& request : batch) features.push_back(std::move(request.features));
    auto predictions = predictor_->predict(features);
    Results results;
    results.reserve(predictions.size());
    for (std::size_t i = 0; i < predictions.size() && i < batch.size(); ++i) {
      results.emplace_back(batch[i].id, predictions[i]);
    }
    undelivered_->fetch_add(results.size(), std::memory_order_relaxed);
    loop_.post([delivery, results = std::move(results), undelivered = undelivered_] {
      undelivered->fetch_sub(results.size(), std::memory_order_relaxed);
      for (const auto& [id, prediction] : results) {
        // Locked for each result: a handler may end the runner.
        auto target = delivery.lock();
        if (target && target->handler) target->handler(id, prediction);
      }
    });
  }

  void save() {
    if (options_.model_file.empty()) return;
    auto saved = core::write_file_atomically(options_.model_file, predictor_->save());
    if (!saved) {
      log::warn("model_not_saved",
                {{"file", options_.model_file}, {"error", saved.error().message}});
    }
  }

  net::EventLoop& loop_;
  std::unique_ptr<predict::Predictor> predictor_;  // the thread's after the constructor
  PredictionThreadOptions options_;
  std::shared_ptr<Delivery> delivery_;
  std::shared_ptr<std::atomic<std::size_t>> undelivered_ =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::atomic<std::uint64_t> dropped_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Message> inbox_;  // guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace

std::unique_ptr<PredictionRunner> make_threaded_prediction_runner(
    net::EventLoop& loop, std::unique_ptr<predict::Predictor> predictor,
    PredictionThreadOptions options) {
  return std::make_unique<ThreadedPredictionRunner>(loop, std::move(predictor), std::move(options));
}

}  // namespace tailrace::gateway
