// What would an engine that is too simple to be wrong do?
//
// The rules of docs/decisions/0010-engine-rules.md once more, for tests: single blocks with an
// identity and a reference count, one list of free ones, sums recomputed from scratch. Slow, and
// written without a look at BatchEngine's shortcuts. It checks its own books after every call.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tailrace/engine/batch_scheduler.h"
#include "tailrace/engine/engine_config.h"
#include "tailrace/engine/engine_core.h"

namespace tailrace::engine {

class ReferenceEngine final : public EngineCore {
 public:
  ReferenceEngine(const EngineConfig& config, std::unique_ptr<BatchScheduler> scheduler);

  Result<void> add(const SequenceSpec& spec, MonoTime now) override;
  bool abort(SequenceId id) override;
  std::optional<Iteration> begin_iteration(MonoTime now) override;
  const std::vector<TokenEvent>& end_iteration() override;
  std::optional<MonoTime> advance(MonoTime now, MonoTime until, bool stop_at_finish,
                                  LifeSink& sink) override;
  EngineState state() const override;
  std::vector<SequenceView> running() const;

  /// What is wrong with the books: requests, blocks, reference counts, tokens. Empty if nothing.
  std::string audit() const;

 private:
  /// (prefix id, its place, blocks of its stretch, block in it): which content a block holds.
  using Content = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  struct Block {
    std::optional<Content> content;  // while it is in the cache
    int holders = 0;
  };
  struct Seq {
    SequenceSpec spec;
    MonoTime arrival;
    std::int64_t generated = 0, computed = 0, scheduled = 0, preemptions = 0;
    std::vector<std::size_t> blocks;
    std::size_t cached_before = 0;  // its blocks in the cache before this iteration
    bool duplicates = false;        // it holds a copy of a block that another one has cached
    std::int64_t known() const { return spec.prompt_tokens.count() + generated; }
  };

  std::optional<Content> content_of(const Seq& s, std::size_t block) const;
  std::size_t blocks_for(std::int64_t tokens) const;
  std::vector<std::size_t> cached_blocks(const Seq& s) const;
  std::int64_t budget() const;
  void schedule(Seq& s, std::int64_t tokens);
  void release(Seq& s);
  void preempt(std::size_t index);
  void review();
  bool schedule_running();
  void admit_waiting();
  SequenceView view(const Seq& s) const;

  EngineConfig config_;
  std::unique_ptr<BatchScheduler> scheduler_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> free_;  // the next one to use first
  std::map<Content, std::size_t> cache_;
  std::map<SequenceId, Seq> waiting_;
  std::vector<Seq> running_;
  std::vector<TokenEvent> events_;
  EngineState totals_;
  std::int64_t token_nanoseconds_ = 0;
  Duration blocking_{0};
  MonoTime now_;
  bool under_way_ = false;
  LifeSink* sink_ = nullptr;
  std::size_t added_ = 0, ended_ = 0;
};

}  // namespace tailrace::engine
