#include "net/support/sim_fixture.h"

namespace tailrace::net::test {

void RawPeer::connect(SimLoop& loop, SimNetwork& network, const Endpoint& to) {
  connecting_ =
      network.connect(to, std::chrono::seconds(1), [this](Result<std::unique_ptr<Stream>> stream) {
        if (stream) {
          adopt(std::move(*stream));
        } else {
          connect_error = stream.error();
        }
      });
  for (int i = 0; i < 100 && !stream_ && !connect_error; ++i) {
    loop.run_for(std::chrono::microseconds(50));
  }
}

void RawPeer::adopt(std::unique_ptr<Stream> stream) {
  stream_ = std::move(stream);
  read_more();
}

void RawPeer::send(std::string bytes) {
  outgoing_ += bytes;
  write_more();
}

void RawPeer::write_more() {
  if (writing_ || outgoing_.empty()) return;
  writing_ = true;
  std::vector<std::string> buffers;
  buffers.push_back(std::exchange(outgoing_, {}));
  stream_->write(std::move(buffers), [this](Result<void> result) {
    writing_ = false;
    if (result) write_more();
  });
}

void RawPeer::resume_reading() {
  reading_ = true;
  read_more();
}

void RawPeer::read_more() {
  if (!reading_ || read_pending_) return;
  read_pending_ = true;
  stream_->read(buffer_, [this](Result<std::size_t> n) {
    read_pending_ = false;
    if (!n) {
      read_error = n.error();
      return;
    }
    if (*n == 0) {
      ended = true;
      return;
    }
    received.append(buffer_.data(), *n);
    read_more();
  });
}

CallHandlers CallLog::handlers() {
  CallHandlers h;
  h.on_connected = [this] { ++connected; };
  h.on_head = [this](ResponseHead answer) {
    ++heads;
    head = std::move(answer);
  };
  h.on_body = [this](std::string_view bytes) {
    EXPECT_FALSE(bytes.empty());
    EXPECT_FALSE(settled()) << "bytes after the end";
    body += bytes;
  };
  h.on_end = [this] {
    EXPECT_FALSE(settled()) << "a second end";
    ++ends;
  };
  h.on_error = [this](CallError e) {
    EXPECT_FALSE(settled()) << "an error after the end";
    error = std::move(e);
  };
  return h;
}

}  // namespace tailrace::net::test
