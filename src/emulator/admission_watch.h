// When did a sequence first enter the batch, for a driver that runs an engine iteration by
// iteration?
//
// A scheduler in front of another that notes whom the engine takes from the line. Loop thread.
#pragma once

#include <memory>
#include <utility>

#include "tailrace/core/unique_function.h"
#include "tailrace/engine/batch_scheduler.h"

namespace tailrace::emulator {

class AdmissionWatch final : public engine::BatchScheduler {
 public:
  using Seen = UniqueFunction<void(engine::SequenceId id, MonoTime at)>;

  AdmissionWatch(std::unique_ptr<engine::BatchScheduler> line, Seen admitted)
      : line_(std::move(line)), admitted_(std::move(admitted)) {}

  void push(const engine::SequenceView& sequence, MonoTime now) override {
    line_->push(sequence, now);
  }
  std::optional<engine::SequenceId> head(MonoTime now) override {
    asked_at_ = now;
    return line_->head(now);
  }
  void pop_head() override {
    if (const auto id = line_->head(asked_at_)) admitted_(*id, asked_at_);
    line_->pop_head();
  }
  bool remove(engine::SequenceId id) override { return line_->remove(id); }
  std::size_t size() const override { return line_->size(); }
  std::size_t victim(std::span<const engine::SequenceView> running, MonoTime now) override {
    return line_->victim(running, now);
  }
  void ended(engine::SequenceId id) override { line_->ended(id); }

 private:
  std::unique_ptr<engine::BatchScheduler> line_;
  Seen admitted_;
  MonoTime asked_at_;
};

}  // namespace tailrace::emulator
