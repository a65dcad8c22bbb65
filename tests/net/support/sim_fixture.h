// An in-memory network with a raw peer on it, for tests that speak bytes to a server or a client.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tailrace/net/http_client.h"
#include "tailrace/net/http_server.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::net::test {

inline const Endpoint kServerAt{"server", 80, false};

/// A peer that writes given bytes and remembers what it receives.
class RawPeer {
 public:
  RawPeer() = default;
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  /// Connects to `to` and runs the loop until that is done.
  void connect(SimLoop& loop, SimNetwork& network, const Endpoint& to = kServerAt);
  void adopt(std::unique_ptr<Stream> stream);

  void send(std::string bytes);  ///< may be called again before the first bytes have left
  void finish() { stream_->shutdown_write(); }
  void close(bool reset = false) { stream_->close(reset); }
  void stop_reading() { reading_ = false; }
  void resume_reading();

  bool connected() const { return stream_ != nullptr; }
  std::string received;
  bool ended = false;               ///< the other side has sent end of stream
  std::optional<Error> read_error;  ///< a reset, say
  std::optional<Error> connect_error;

 private:
  void read_more();
  void write_more();

  std::unique_ptr<Connecting> connecting_;
  std::unique_ptr<Stream> stream_;
  std::vector<char> buffer_ = std::vector<char>(4096);
  std::string outgoing_;
  bool reading_ = true;
  bool read_pending_ = false;
  bool writing_ = false;
};

/// A loop and a network. Streams must all be closed at the end of each test.
class SimTest : public testing::Test {
 protected:
  explicit SimTest(std::uint64_t seed = 1) : network(loop, seed) {}
  void run(Duration duration = std::chrono::milliseconds(10)) { loop.run_for(duration); }

  SimLoop loop;
  SimNetwork network;
};

/// How a test sees a call of the client.
struct CallLog {
  int connected = 0;
  int heads = 0;
  int ends = 0;
  ResponseHead head;
  std::string body;
  std::optional<CallError> error;

  CallHandlers handlers();
  bool settled() const { return ends > 0 || error.has_value(); }
};

}  // namespace tailrace::net::test
