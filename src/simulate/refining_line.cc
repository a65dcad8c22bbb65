#include "simulate/refining_line.h"

#include <utility>

namespace tailrace::simulate {
namespace {

class RefiningLine final : public engine::BatchScheduler {
 public:
  RefiningLine(std::unique_ptr<engine::PolicyScheduler> inner, std::int64_t refine_every,
               LengthPredictor& predictor, LiveTable& live)
      : inner_(std::move(inner)), every_(refine_every), predictor_(predictor), live_(live) {}

  void push(const engine::SequenceView& sequence, MonoTime now) override {
    inner_->push(sequence, now);
  }
  std::optional<engine::SequenceId> head(MonoTime now) override { return inner_->head(now); }
  void pop_head() override { inner_->pop_head(); }
  bool remove(engine::SequenceId id) override { return inner_->remove(id); }
  std::size_t size() const override { return inner_->size(); }
  std::size_t victim(std::span<const engine::SequenceView> running, MonoTime now) override {
    return inner_->victim(running, now);
  }
  std::int64_t review_interval() const override { return inner_->review_interval(); }
  void ended(engine::SequenceId id) override { inner_->ended(id); }

  void review(std::span<const engine::SequenceView> running, const engine::Room& room, MonoTime now,
              std::vector<engine::SequenceId>& preempt) override {
    for (const engine::SequenceView& sequence : running) refine(sequence, now);
    inner_->review(running, room, now, preempt);
  }

 private:
  void refine(const engine::SequenceView& sequence, MonoTime now) {
    Live& live = live_.at(sequence.id.count());
    const std::int64_t predictions = sequence.generated.count() / every_;
    if (predictions <= live.refinements) return;
    live.refinements = predictions;
    auto law = predictor_.refine(live.request, sequence.generated);
    if (!law) return;
    live.law = *law;
    live.law_known = true;
    inner_->set_law(sequence.id, *law, now);
  }

  std::unique_ptr<engine::PolicyScheduler> inner_;
  std::int64_t every_;
  LengthPredictor& predictor_;
  LiveTable& live_;
};

}  // namespace

std::unique_ptr<engine::BatchScheduler> make_refining_line(
    std::unique_ptr<engine::PolicyScheduler> inner, std::int64_t refine_every,
    LengthPredictor& predictor, LiveTable& live) {
  return std::make_unique<RefiningLine>(std::move(inner), refine_every, predictor, live);
}

}  // namespace tailrace::simulate
