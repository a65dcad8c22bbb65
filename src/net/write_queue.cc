#include "net/write_queue.h"

#include <array>

#include "tailrace/core/check.h"

namespace tailrace::net {
namespace {

constexpr std::size_t kPiecesMax = 8;
/// Small queued pieces are joined up to this size: fewer entries, same bytes.
constexpr std::size_t kJoinBytesMax = 16 * 1024;

}  // namespace

void WriteQueue::send(std::span<const std::string_view> pieces) {
  if (broken_) return;
  TAILRACE_CHECK(pieces.size() < kPiecesMax);
  std::array<std::string_view, kPiecesMax> all;
  std::size_t count = 0;
  const std::string held = std::exchange(held_, {});
  if (!held.empty()) all[count++] = held;
  for (const std::string_view piece : pieces) {
    if (!piece.empty()) all[count++] = piece;
  }
  if (count == 0) return;
  std::size_t sent = 0;
  if (!writing_ && queue_.empty()) sent = stream_.try_write(std::span(all.data(), count));
  for (std::size_t i = 0; i < count; ++i) {
    accepted_ += all[i].size();
    const std::size_t gone = std::min(sent, all[i].size());
    sent -= gone;
    if (gone < all[i].size()) enqueue(all[i].substr(gone));
  }
  if (!writing_ && !queue_.empty()) start_write();
}

std::size_t WriteQueue::waiting_bytes() const {
  return static_cast<std::size_t>(accepted_ - stream_.bytes_written()) + held_.size();
}

void WriteQueue::enqueue(std::string_view bytes) {
  if (!queue_.empty() && queue_.back().size() + bytes.size() <= kJoinBytesMax) {
    queue_.back() += bytes;
  } else {
    queue_.emplace_back(bytes);
  }
}

void WriteQueue::start_write() {
  writing_ = true;
  stream_.write(std::exchange(queue_, {}), [this](Result<void> result) {
    writing_ = false;
    if (!result) {
      broken_ = true;
      queue_.clear();
      held_.clear();
      return on_settled_(std::move(result));
    }
    if (!queue_.empty()) start_write();
    on_settled_({});
  });
}

}  // namespace tailrace::net
