#include "tailrace/net/sim_network.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tailrace/core/check.h"

namespace tailrace::net {
namespace {

using ReadDone = UniqueFunction<void(Result<std::size_t>)>;
using WriteDone = UniqueFunction<void(Result<void>)>;
using Connected = UniqueFunction<void(Result<std::unique_ptr<Stream>>)>;

constexpr int kClient = 0;
constexpr int kServer = 1;

}  // namespace

struct SimNetwork::Core {
  Core(SimLoop& l, std::uint64_t seed) : loop(l), rng(seed) {}

  struct ListenerEntry {
    UniqueFunction<void(std::unique_ptr<Stream>)> on_accept;
  };

  std::shared_ptr<ListenerEntry> find(const Endpoint& to) const {
    for (const std::string& host : {to.host, std::string()}) {
      const auto found = listeners.find({host, to.port});
      if (found != listeners.end()) return found->second;
    }
    return nullptr;
  }

  SimLoop& loop;
  Rng rng;
  SimLink link;
  std::map<std::pair<std::string, std::uint16_t>, std::shared_ptr<ListenerEntry>> listeners;
  std::map<Endpoint, Reach> reach;
  std::vector<std::shared_ptr<SimConnection>> connections;
  std::size_t open_streams = 0;
  std::uint16_t next_port = 40'000;
};

namespace {

using Core = SimNetwork::Core;

/// Both ends of one connection. Side 0 connected, side 1 accepted. What one side sends arrives at
/// the other in order: segments, then an end of stream or a reset.
class Wire final : public SimConnection, public std::enable_shared_from_this<Wire> {
 public:
  Wire(std::shared_ptr<Core> core, Endpoint to)
      : core_(std::move(core)), link_(core_->link), to_(std::move(to)) {}

  Endpoint to() const override { return to_; }
  bool client_open() const override { return sides_[kClient].open; }
  bool server_open() const override { return sides_[kServer].open; }
  std::uint64_t bytes_read_by_server() const override { return sides_[kServer].bytes_read; }
  bool reset_seen() const override {
    return sides_[kClient].was_reset || sides_[kServer].was_reset;
  }
  void freeze() override { frozen_ = true; }
  void reset() override {
    arrive_reset(kClient);
    arrive_reset(kServer);
  }

  std::unique_ptr<Stream> open(int side);

  void read(int side, std::span<char> into, ReadDone done) {
    Side& me = sides_[side];
    TAILRACE_CHECK(!me.read_done && !into.empty());
    me.read_into = into;
    me.read_done = std::move(done);
    wake_reader(side);
  }

  void write(int side, std::vector<std::string> buffers, WriteDone done) {
    Side& me = sides_[side];
    TAILRACE_CHECK(!me.write_done);
    me.write_done = std::move(done);
    me.unsent.clear();
    for (const std::string& buffer : buffers) me.unsent += buffer;
    // As a kernel does it: what fits the window is taken within the call.
    send_unsent(side);
    pump_later(side, core_->loop.now());
  }

  std::size_t try_write(int side, std::span<const std::string_view> pieces) {
    TAILRACE_CHECK(!sides_[side].write_done);
    std::string bytes;
    for (const std::string_view piece : pieces) bytes += piece;
    bytes.resize(std::min(bytes.size(), room(side)));
    send(side, bytes);
    return bytes.size();
  }

  std::uint64_t bytes_written(int side) const { return sides_[side].written; }

  void shutdown_write(int side) {
    Side& me = sides_[side];
    if (!me.open || me.end_sent) return;
    me.end_sent = true;
    deliver(side, [self = shared_from_this(), side] { self->arrive_end(1 - side); });
  }

  /// `quietly`: the stream is destroyed, so its completions are dropped and not called.
  void close(int side, bool reset, bool quietly) {
    Side& me = sides_[side];
    if (me.open) {
      me.open = false;
      --core_->open_streams;
      // As a kernel does it: unread input turns an orderly close into a reset.
      if (reset || !me.inbox.empty()) {
        deliver(side, [self = shared_from_this(), side] { self->arrive_reset(1 - side); });
      } else if (!me.end_sent) {
        deliver(side, [self = shared_from_this(), side] { self->arrive_end(1 - side); });
      }
      me.inbox.clear();
    }
    if (quietly) {
      const ReadDone read_dropped = std::move(me.read_done);
      const WriteDone write_dropped = std::move(me.write_done);
    } else {
      wake_reader(side);
      pump_later(side, core_->loop.now());
    }
  }

 private:
  struct Side {
    bool open = false;
    bool was_reset = false;
    bool end_arrived = false;
    bool end_sent = false;
    std::string inbox;          // arrived, not read
    std::string unsent;         // of a write() that waits for the window
    std::size_t in_flight = 0;  // sent by this side, not arrived
    std::uint64_t written = 0;
    std::uint64_t bytes_read = 0;
    std::size_t reads = 0;
    MonoTime last_arrival{};  // of what this side sent
    std::span<char> read_into;
    ReadDone read_done;
    WriteDone write_done;
  };

  /// Runs `task` when what `side` sends now arrives: after everything that it sent before.
  void deliver(int side, Task task) {
    Duration delay = link_.delay;
    if (link_.jitter > Duration{0}) {
      delay += Duration(static_cast<Duration::rep>(core_->rng.uniform() *
                                                   static_cast<double>(link_.jitter.count())));
    }
    Side& me = sides_[side];
    me.last_arrival = std::max(me.last_arrival, core_->loop.now() + delay);
    core_->loop.post_at(me.last_arrival,
                        [self = shared_from_this(), task = std::move(task)]() mutable {
                          if (!self->frozen_) task();
                        });
  }

  std::size_t room(int side) const {
    const Side& me = sides_[side];
    if (!me.open || me.was_reset || me.end_sent) return 0;
    const std::size_t used = me.in_flight + sides_[1 - side].inbox.size();
    return link_.window_bytes > used ? link_.window_bytes - used : 0;
  }

  void send(int side, const std::string& bytes) {
    if (bytes.empty()) return;
    sides_[side].in_flight += bytes.size();
    sides_[side].written += bytes.size();
    deliver(side, [self = shared_from_this(), side, bytes] { self->arrive(1 - side, bytes); });
  }

  void arrive(int side, const std::string& bytes) {
    Side& me = sides_[side];
    sides_[1 - side].in_flight -= bytes.size();
    if (!me.open) {  // nobody is there any more: the sender learns it by a reset
      deliver(side, [self = shared_from_this(), side] { self->arrive_reset(1 - side); });
      return;
    }
    if (me.was_reset) return;
    me.inbox += bytes;
    wake_reader(side);
  }

  void arrive_end(int side) {
    sides_[side].end_arrived = true;
    wake_reader(side);
  }

  void arrive_reset(int side) {
    Side& me = sides_[side];
    if (!me.open || me.was_reset) return;
    me.was_reset = true;
    me.inbox.clear();
    wake_reader(side);
    pump_later(side, core_->loop.now());
  }

  void wake_reader(int side) {
    core_->loop.post([self = weak_from_this(), side] {
      if (const auto wire = self.lock()) wire->finish_read(side);
    });
  }

  std::size_t next_read_bytes(Side& me) {
    if (link_.random_read_bytes_max > 0) {
      return 1 + static_cast<std::size_t>(core_->rng.below(link_.random_read_bytes_max));
    }
    if (link_.read_bytes.empty()) return me.inbox.size();
    return std::max<std::size_t>(1, link_.read_bytes[me.reads++ % link_.read_bytes.size()]);
  }

  void finish_read(int side) {
    Side& me = sides_[side];
    if (!me.read_done) return;
    if (!me.open) return take(me.read_done)(closed_here());
    if (me.was_reset) {
      return take(me.read_done)(fail(ErrorCode::kUnavailable, "connection reset by peer"));
    }
    if (me.inbox.empty()) {
      if (me.end_arrived) take(me.read_done)(std::size_t{0});
      return;
    }
    const std::size_t n = std::min({me.read_into.size(), me.inbox.size(), next_read_bytes(me)});
    std::memcpy(me.read_into.data(), me.inbox.data(), n);
    me.inbox.erase(0, n);
    me.bytes_read += n;
    pump_later(1 - side, core_->loop.now() + link_.delay);  // the window opens again
    take(me.read_done)(n);
  }

  void pump_later(int side, MonoTime at) {
    if (!sides_[side].write_done) return;
    core_->loop.post_at(at, [self = shared_from_this(), side] { self->pump(side); });
  }

  void pump(int side) {
    Side& me = sides_[side];
    if (!me.write_done) return;
    if (!me.open) return take(me.write_done)(closed_here());
    if (me.was_reset || me.end_sent) {
      me.unsent.clear();
      return take(me.write_done)(fail(ErrorCode::kUnavailable, "connection reset by peer"));
    }
    send_unsent(side);
    if (me.unsent.empty()) take(me.write_done)({});
  }

  void send_unsent(int side) {
    Side& me = sides_[side];
    const std::size_t n = std::min(me.unsent.size(), room(side));
    send(side, me.unsent.substr(0, n));
    me.unsent.erase(0, n);
  }

  static tl::unexpected<Error> closed_here() {
    return fail(ErrorCode::kCancelled, "the connection was closed here");
  }

  template <class Done>
  static Done take(Done& done) {
    return std::move(done);
  }

  std::shared_ptr<Core> core_;
  SimLink link_;
  Endpoint to_;
  std::array<Side, 2> sides_;
  bool frozen_ = false;
};

class SimStream final : public Stream {
 public:
  SimStream(std::shared_ptr<Wire> wire, int side, std::string peer)
      : wire_(std::move(wire)), side_(side), peer_(std::move(peer)) {}
  ~SimStream() override { wire_->close(side_, false, true); }
  void read(std::span<char> into, ReadDone done) override {
    wire_->read(side_, into, std::move(done));
  }
  void write(std::vector<std::string> buffers, WriteDone done) override {
    wire_->write(side_, std::move(buffers), std::move(done));
  }
  std::size_t try_write(std::span<const std::string_view> pieces) override {
    return wire_->try_write(side_, pieces);
  }
  std::uint64_t bytes_written() const override { return wire_->bytes_written(side_); }
  void shutdown_write() override { wire_->shutdown_write(side_); }
  void close(bool reset) override { wire_->close(side_, reset, false); }
  std::string peer() const override { return peer_; }

 private:
  std::shared_ptr<Wire> wire_;
  int side_;
  std::string peer_;
};

std::unique_ptr<Stream> Wire::open(int side) {
  sides_[side].open = true;
  ++core_->open_streams;
  const std::string peer = side == kClient ? to_string(to_) : "client";
  return std::make_unique<SimStream>(shared_from_this(), side, peer);
}

class SimListener final : public Listener {
 public:
  SimListener(std::shared_ptr<Core> core, Endpoint local)
      : core_(std::move(core)), local_(std::move(local)) {}
  ~SimListener() override { core_->listeners.erase({local_.host, local_.port}); }
  Endpoint local() const override { return local_; }

 private:
  std::shared_ptr<Core> core_;
  Endpoint local_;
};

/// SYN after one delay, the answer after a second one.
class SimConnecting final : public Connecting, public std::enable_shared_from_this<SimConnecting> {
 public:
  SimConnecting(std::shared_ptr<Core> core, Endpoint to, Connected done)
      : core_(std::move(core)), to_(std::move(to)), done_(std::move(done)) {}

  void start(Duration timeout) {
    const MonoTime now = core_->loop.now();
    if (timeout > Duration{0}) {
      timer_ = core_->loop.at(now + timeout, [this] {
        finish(fail(ErrorCode::kDeadlineExceeded,
                    "cannot connect to " + to_string(to_) + ": no connection within the time-out"));
      });
    }
    core_->loop.post_at(now + core_->link.delay, [self = weak_from_this()] {
      if (const auto attempt = self.lock()) attempt->knock();
    });
  }
  void abandon() {
    timer_.reset();
    const Connected dropped = std::move(done_);
    stream_.reset();
  }

 private:
  void knock() {
    if (!done_) return;
    const auto reach = core_->reach.find(to_);
    if (reach != core_->reach.end() && reach->second == SimNetwork::Reach::kSilent) return;
    const auto listener = core_->find(to_);
    if (!listener ||
        (reach != core_->reach.end() && reach->second == SimNetwork::Reach::kRefused)) {
      return answer_later();
    }
    auto wire = std::make_shared<Wire>(core_, to_);
    core_->connections.push_back(wire);
    stream_ = wire->open(kClient);
    answer_later();
    listener->on_accept(wire->open(kServer));
  }

  void answer_later() {
    core_->loop.post_at(core_->loop.now() + core_->link.delay, [self = weak_from_this()] {
      const auto attempt = self.lock();
      if (!attempt || !attempt->done_) return;
      if (attempt->stream_) return attempt->finish(std::move(attempt->stream_));
      attempt->finish(fail(ErrorCode::kUnavailable, "cannot connect to " + to_string(attempt->to_) +
                                                        ": connection refused"));
    });
  }

  void finish(Result<std::unique_ptr<Stream>> result) {
    const auto self = shared_from_this();
    const auto timer = std::move(timer_);
    if (!done_) return;
    Connected done = std::move(done_);
    done(std::move(result));
  }

  std::shared_ptr<Core> core_;
  Endpoint to_;
  Connected done_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<Stream> stream_;
};

class SimConnectingHandle final : public Connecting {
 public:
  explicit SimConnectingHandle(std::shared_ptr<SimConnecting> attempt)
      : attempt_(std::move(attempt)) {}
  ~SimConnectingHandle() override { attempt_->abandon(); }

 private:
  std::shared_ptr<SimConnecting> attempt_;
};

}  // namespace

SimNetwork::SimNetwork(SimLoop& loop, std::uint64_t seed)
    : core_(std::make_shared<Core>(loop, seed)) {}

SimNetwork::~SimNetwork() {
  core_->connections.clear();
}

Result<std::unique_ptr<Listener>> SimNetwork::listen(
    const Endpoint& at, UniqueFunction<void(std::unique_ptr<Stream>)> on_accept) {
  Endpoint local{at.host, at.port, false};
  if (local.port == 0) local.port = core_->next_port++;
  auto entry = std::make_shared<Core::ListenerEntry>();
  entry->on_accept = std::move(on_accept);
  if (!core_->listeners.emplace(std::pair{local.host, local.port}, std::move(entry)).second) {
    return fail(ErrorCode::kUnavailable,
                "cannot listen at " + to_string(local) + ": address already in use");
  }
  return std::unique_ptr<Listener>(std::make_unique<SimListener>(core_, std::move(local)));
}

std::unique_ptr<Connecting> SimNetwork::connect(const Endpoint& to, Duration timeout,
                                                Connected done) {
  auto attempt = std::make_shared<SimConnecting>(core_, to, std::move(done));
  attempt->start(timeout);
  return std::make_unique<SimConnectingHandle>(std::move(attempt));
}

void SimNetwork::set_link(SimLink link) {
  core_->link = std::move(link);
}

void SimNetwork::set_reach(const Endpoint& endpoint, Reach reach) {
  core_->reach[endpoint] = reach;
}

const std::vector<std::shared_ptr<SimConnection>>& SimNetwork::connections() const {
  return core_->connections;
}

std::size_t SimNetwork::open_streams() const {
  return core_->open_streams;
}

}  // namespace tailrace::net
