// What of an engine's event stream goes to the client, and what did it tell us?
//
// Every byte passes, in order and unchanged, except the one event that our own asking for usage
// caused: empty `choices` and a usage object (design, rule 7). With dropping off, bytes pass before
// they are looked at. With dropping on, only what may still become that event is held back: its
// field lines and the data line itself until it is complete; at most 64 KiB. Loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/answer_facts.h"
#include "gateway/route.h"
#include "tailrace/net/event_stream.h"

namespace tailrace::gateway {

class UsageFilter {
 public:
  UsageFilter(Route route, bool drop_caused_usage);
  ~UsageFilter();
  UsageFilter(UsageFilter&&) noexcept;
  UsageFilter& operator=(UsageFilter&&) noexcept;

  /// Appends to `out` what goes to the client now.
  void feed(std::string_view bytes, std::string& out);
  /// The stream has ended (or was cut): appends what was held.
  void finish(std::string& out);

  const AnswerFacts& facts() const;
  std::size_t held_bytes() const;  ///< waiting for their event's fate
  std::uint64_t dropped_events() const;
  /// The client has seen a whole event last, so that another one may follow at once.
  bool at_event_boundary() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::gateway
