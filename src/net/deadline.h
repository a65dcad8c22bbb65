// Has this wait gone on for too long?
//
// A deadline that moves with every read must not cost a timer each: the timer stays where it is
// and, when it fires early, is set again for what is left. Private to src/net; loop thread only.
#pragma once

#include "tailrace/net/event_loop.h"

namespace tailrace::net {

class Deadline {
 public:
  Deadline(EventLoop& loop, Task on_expired) : loop_(loop), on_expired_(std::move(on_expired)) {}

  /// Expires once, `delay` from now, unless it is set again or cleared before. Zero or less clears.
  void set(Duration delay) {
    if (delay <= Duration{0}) return clear();
    const MonoTime now = loop_.now();
    due_ = delay > MonoTime::max() - now ? MonoTime::max() : now + delay;
    if (!timer_ || armed_for_ > due_) arm();
  }
  void clear() { due_ = MonoTime::max(); }
  bool active() const { return due_ != MonoTime::max(); }

 private:
  void arm() {
    armed_for_ = due_;
    timer_ = loop_.at(due_, [this] { fire(); });
  }
  void fire() {
    timer_.reset();
    if (!active()) return;
    if (loop_.now() < due_) return arm();
    clear();
    on_expired_();
  }

  EventLoop& loop_;
  Task on_expired_;
  std::unique_ptr<Timer> timer_;
  MonoTime due_ = MonoTime::max();
  MonoTime armed_for_ = MonoTime::max();
};

}  // namespace tailrace::net
