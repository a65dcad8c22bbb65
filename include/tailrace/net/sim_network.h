// What does the code above do when the network misbehaves, and can that be replayed?
//
// SimLoop runs events in virtual time; SimNetwork connects streams in memory, with delays, reads
// cut into pieces, bounded windows, resets, half-open peers and refused connections. Same program,
// same seed: same events in the same order. One thread; no real clock, socket or sleep.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/net/event_loop.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {

/// Virtual time: it stands still while handlers run and jumps to the next event. Events of one
/// instant run in the order in which they were asked for. Unlike the real loop it is not
/// thread-safe.
class SimLoop final : public EventLoop {
 public:
  SimLoop() = default;
  ~SimLoop() override;
  MonoTime now() const override { return now_; }
  void post(Task task) override { post_at(now_, std::move(task)); }
  /// As at(), for what nobody will want to take back.
  void post_at(MonoTime at, Task task);
  [[nodiscard]] std::unique_ptr<Timer> at(MonoTime at, Task task) override;
  /// Runs until stop() or until nothing is left to happen. A program with a periodic timer never
  /// gets there: use run_for().
  void run() override;
  void stop() override { stopped_ = true; }
  void on_terminate(UniqueFunction<void(int signal)> handler) override;

  /// Runs what is due up to `end`, which is `now` afterwards (unless stop() was called).
  void run_until(MonoTime end);
  void run_for(Duration duration) { run_until(now_ + duration); }
  /// As if the process had received the signal.
  void raise(int signal);
  std::size_t events_waiting() const { return events_.size(); }

 private:
  using Key = std::pair<MonoTime, std::uint64_t>;
  class SimTimer;
  void run_next();

  MonoTime now_{};
  std::uint64_t next_sequence_ = 0;
  std::map<Key, Task> events_;
  UniqueFunction<void(int)> on_signal_;
  bool stopped_ = false;
};

/// How connections behave, both ways.
struct SimLink {
  Duration delay = std::chrono::microseconds(50);  ///< from a write to the peer's read
  Duration jitter{0};                              ///< up to so much more; order is kept
  std::size_t window_bytes = 64 * 1024;            ///< written and not read yet; then writes wait
  std::vector<std::size_t> read_bytes = {};  ///< successive reads yield at most these; then again
  std::size_t random_read_bytes_max = 0;     ///< not 0: reads yield 1 to so many bytes, by the seed
};

/// One connection, seen from outside: for injecting faults and for asking what became of it.
class SimConnection {
 public:
  virtual ~SimConnection() = default;
  virtual Endpoint to() const = 0;
  /// Both sides see "connection reset", at once.
  virtual void reset() = 0;
  /// From now on nothing arrives on either side, and nobody is told: a cable is cut.
  virtual void freeze() = 0;
  virtual bool client_open() const = 0;  ///< the side that connected has not closed
  virtual bool server_open() const = 0;
  virtual std::uint64_t bytes_read_by_server() const = 0;
  virtual bool reset_seen() const = 0;  ///< one side has seen a reset
};

class SimNetwork final : public Network {
 public:
  /// `loop` must outlive it.
  SimNetwork(SimLoop& loop, std::uint64_t seed);
  ~SimNetwork() override;

  /// Port 0 picks the next free one. TLS endpoints are treated as plain ones.
  Result<std::unique_ptr<Listener>> listen(
      const Endpoint& at, UniqueFunction<void(std::unique_ptr<Stream>)> on_accept) override;
  [[nodiscard]] std::unique_ptr<Connecting> connect(
      const Endpoint& to, Duration timeout,
      UniqueFunction<void(Result<std::unique_ptr<Stream>>)> done) override;

  /// For connections made from now on.
  void set_link(SimLink link);
  enum class Reach { kNormal, kRefused, kSilent };
  /// kRefused: connecting fails at once; kSilent: it is never answered.
  void set_reach(const Endpoint& endpoint, Reach reach);

  /// Every connection so far, in order.
  const std::vector<std::shared_ptr<SimConnection>>& connections() const;
  /// Streams that exist and are not closed: 0 when nothing leaks.
  std::size_t open_streams() const;

  struct Core;  // shared with the streams, which may outlive the network

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace tailrace::net
