#include "simulate/parallel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tailrace::simulate {
namespace {

class Crew {
 public:
  explicit Crew(const ParallelWork& work) : work_(work), done_(work.pieces, false) {}

  Result<void> run() {
    std::vector<std::thread> threads;
    const std::size_t n =
        std::clamp<std::size_t>(work_.jobs, 1, std::max<std::size_t>(1, work_.pieces));
    for (std::size_t i = 0; i < n; ++i) threads.emplace_back([this] { toil(); });
    std::unique_lock lock(mutex_);
    while (in_order_ < work_.pieces && !failed_piece_) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (!work_.tick) continue;
      const std::size_t finished = finished_;
      lock.unlock();
      work_.tick(finished);
      lock.lock();
    }
    lock.unlock();
    for (auto& thread : threads) thread.join();
    if (failed_piece_) return fail(*error_);
    return {};
  }

 private:
  void toil() {
    std::unique_lock lock(mutex_);
    while (true) {
      may_begin_.wait(lock, [&] {
        return failed_piece_ || next_ >= work_.pieces ||
               next_ < in_order_ + work_.jobs + ParallelWork::kAhead;
      });
      if (failed_piece_ || next_ >= work_.pieces) return;
      const std::size_t piece = next_++;
      lock.unlock();
      auto result = work_.work(piece);
      lock.lock();
      if (!result) {
        fail_at(piece, result.error());
        continue;
      }
      done_[piece] = true;
      ++finished_;
      hand_over(lock);
      changed_.notify_one();
    }
  }

  /// Pieces whose turn has come. One thread at a time does so; others leave theirs to it.
  void hand_over(std::unique_lock<std::mutex>& lock) {
    if (handing_over_) return;
    handing_over_ = true;
    while (in_order_ < work_.pieces && done_[in_order_] && !failed_piece_) {
      const std::size_t piece = in_order_;
      Result<void> result;
      if (work_.in_order) {
        lock.unlock();
        result = work_.in_order(piece);
        lock.lock();
      }
      if (!result) fail_at(piece, result.error());
      ++in_order_;
      may_begin_.notify_all();
    }
    handing_over_ = false;
  }

  void fail_at(std::size_t piece, const Error& error) {
    if (!failed_piece_ || piece < *failed_piece_) {
      failed_piece_ = piece;
      error_ = error;
    }
    may_begin_.notify_all();
    changed_.notify_one();
  }

  const ParallelWork& work_;
  std::mutex mutex_;
  std::condition_variable may_begin_;  // for workers
  std::condition_variable changed_;    // for the caller
  std::vector<bool> done_;
  std::size_t next_ = 0;      // to begin
  std::size_t finished_ = 0;  // pieces worked on
  std::size_t in_order_ = 0;  // pieces handed over
  bool handing_over_ = false;
  std::optional<std::size_t> failed_piece_;
  std::optional<Error> error_;
};

}  // namespace

Result<void> run_parallel(const ParallelWork& work) {
  if (work.pieces == 0) return {};
  return Crew(work).run();
}

}  // namespace tailrace::simulate
