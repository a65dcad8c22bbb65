#include "engine/decode_set.h"

#include <algorithm>

#include "tailrace/core/check.h"

namespace tailrace::engine {

void DecodeSet::join(Sequence& s, bool may_publish) {
  TAILRACE_CHECK(!s.decoding && s.computed + 1 == s.known());
  s.decoding = true;
  s.offset = s.computed - steps_;
  ++size_;
  offsets_ += s.offset;
  ++crossing_[class_of(-s.offset)];
  drop_outdated();
  endings_.push_back({steps_ + s.output - s.generated, s.stamp, &s});
  std::push_heap(endings_.begin(), endings_.end());
  s.filling = may_publish;
  if (!may_publish) return;
  auto& line = filling_[class_of(-s.offset - 1)];
  const auto after = [](const Sequence* a, const Sequence* b) { return a->stamp < b->stamp; };
  line.insert(std::upper_bound(line.begin(), line.end(), &s, after), &s);
}

void DecodeSet::leave(Sequence& s) {
  refresh(s);
  stop_filling(s);
  s.decoding = false;
  --size_;
  offsets_ -= s.offset;
  --crossing_[class_of(-s.offset)];
  if (size_ == 0) endings_.clear();
}

void DecodeSet::stop_filling(Sequence& s) {
  if (!s.filling) return;
  std::erase(filling_[class_of(-s.offset - 1)], &s);
  s.filling = false;
}

void DecodeSet::refresh(Sequence& s) const {
  s.computed = s.offset + steps_;
  s.generated = s.computed + 1 - s.prompt;
  s.kv.blocks = (s.computed + block_tokens_ - 1) / block_tokens_;
}

std::int64_t DecodeSet::steps_to_end() {
  while (!endings_.front().is_current()) {
    std::pop_heap(endings_.begin(), endings_.end());
    endings_.pop_back();
  }
  return endings_.front().step - steps_;
}

void DecodeSet::take_ended(std::vector<Sequence*>& out) {
  while (size_ > 0 && steps_to_end() == 0) {
    Sequence* const s = endings_.front().sequence;
    leave(*s);
    out.push_back(s);
  }
}

// Members that left before their end leave an entry behind.
void DecodeSet::drop_outdated() {
  if (endings_.size() < 64 + 2 * static_cast<std::size_t>(size_)) return;
  std::erase_if(endings_, [](const Ending& e) { return !e.is_current(); });
  std::make_heap(endings_.begin(), endings_.end());
}

}  // namespace tailrace::engine
