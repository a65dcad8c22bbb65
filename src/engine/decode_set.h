// When does one of many sequences that decode together need attention?
//
// Each member of a DecodeSet gets one token in every step. A step costs the same however many they
// are: the context grows by their number, who ends when is in a calendar, and who needs a block
// when follows from the remainder of its context by the block's size. What a member has generated
// is written down only when asked for. Joining and leaving cost O(log members). One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"

namespace tailrace::engine {

class DecodeSet {
 public:
  explicit DecodeSet(std::int64_t block_tokens, bool prefix_caching)
      : block_tokens_(block_tokens),
        crossing_(static_cast<std::size_t>(block_tokens)),
        filling_(prefix_caching ? static_cast<std::size_t>(block_tokens) : 0) {}

  std::int64_t size() const { return size_; }
  /// Context of all of them once the next step has been computed.
  std::int64_t next_kv() const { return offsets_ + size_ * (steps_ + 1); }
  /// Blocks that the next step needs.
  std::int64_t next_blocks() const { return crossing_[next_class_]; }
  /// Those whose next step completes a block that may join the prefix cache, in batch order.
  const std::vector<Sequence*>& next_filling() const {
    return filling_.empty() ? nobody_ : filling_[next_class_];
  }
  /// Steps until the first of them ends; ≥ 1. There must be one.
  std::int64_t steps_to_end();

  /// The sequence samples its next token in the next step.
  void join(Sequence& s, bool may_publish);
  void leave(Sequence& s);
  void stop_filling(Sequence& s);
  /// Writes down where the sequence stands.
  void refresh(Sequence& s) const;

  /// All of them sampled a token.
  void step() {
    ++steps_;
    if (++next_class_ == static_cast<std::size_t>(block_tokens_)) next_class_ = 0;
  }
  /// Takes out those that have ended with the last step, in batch order, into `out`.
  void take_ended(std::vector<Sequence*>& out);

 private:
  struct Ending {
    std::int64_t step;
    std::uint64_t stamp;
    Sequence* sequence;
    bool is_current() const { return sequence->decoding && sequence->stamp == stamp; }
    friend bool operator<(const Ending& a, const Ending& b) {  // for a heap with the first on top
      return a.step != b.step ? a.step > b.step : a.stamp > b.stamp;
    }
  };
  std::size_t class_of(std::int64_t tokens) const {
    return static_cast<std::size_t>(((tokens % block_tokens_) + block_tokens_) % block_tokens_);
  }
  void drop_outdated();

  std::int64_t block_tokens_;
  std::int64_t steps_ = 0;
  std::size_t next_class_ = 0;  // steps_ modulo block_tokens_
  std::int64_t size_ = 0;
  std::int64_t offsets_ = 0;  // sum
  // Members by the remainder of the step that needs a block for them, or completes one.
  std::vector<std::int64_t> crossing_;
  std::vector<std::vector<Sequence*>> filling_;
  std::vector<Sequence*> nobody_;
  std::vector<Ending> endings_;  // a heap; one entry per member, and some that have left
};

}  // namespace tailrace::engine
