#include "dataset/unpack.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <boost/iostreams/categories.hpp>
#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <boost/iostreams/read.hpp>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tailrace::dataset {
namespace {

namespace io = boost::iostreams;

constexpr std::size_t kBufferBytes = 65536;
/// What tells the longest signature, bzip2's with its first block, from text.
constexpr std::size_t kSignatureBytes = 10;

/// Where packed bytes come from: a beginning that was read ahead, then a descriptor (or nothing).
class Packed {
 public:
  Packed(int fd, std::string ahead) : fd_(fd), ahead_(std::move(ahead)) {}
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  ~Packed() {
    if (fd_ > 0) ::close(fd_);
  }

  /// Throws std::runtime_error, for the stream library reports by exceptions.
  std::size_t read(char* into, std::size_t size) {
    if (at_ < ahead_.size()) {
      const std::size_t n = std::min(size, ahead_.size() - at_);
      std::memcpy(into, ahead_.data() + at_, n);
      at_ += n;
      return n;
    }
    return read_descriptor(into, size);
  }

  std::string_view signature() {
    while (fd_ >= 0 && ahead_.size() < kSignatureBytes) {
      char buffer[kSignatureBytes];
      const std::size_t n = read_descriptor(buffer, kSignatureBytes - ahead_.size());
      if (n == 0) break;
      ahead_.append(buffer, n);
    }
    return std::string_view(ahead_).substr(0, kSignatureBytes);
  }

 private:
  std::size_t read_descriptor(char* into, std::size_t size) const {
    if (fd_ < 0) return 0;
    for (;;) {
      const ssize_t n = ::read(fd_, into, size);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) throw std::runtime_error(std::strerror(errno));
    }
  }

  int fd_;
  std::string ahead_;
  std::size_t at_ = 0;
};

class PackedSource {
 public:
  using char_type = char;
  using category = io::source_tag;

  explicit PackedSource(std::shared_ptr<Packed> packed) : packed_(std::move(packed)) {}
  std::streamsize read(char* into, std::streamsize size) {
    const std::size_t n = packed_->read(into, static_cast<std::size_t>(size));
    return n == 0 ? -1 : static_cast<std::streamsize>(n);
  }

 private:
  std::shared_ptr<Packed> packed_;
};

/// Boost's zstd filter takes input that is cut short for its end, so this one asks the library
/// itself whether a frame is still open.
class ZstdFilter {
 public:
  using char_type = char;
  struct category : io::input, io::filter_tag, io::multichar_tag {};

  ZstdFilter() : state_(std::make_shared<State>()) {}

  template <class Source>
  std::streamsize read(Source& source, char* into, std::streamsize size) {
    State& s = *state_;
    ZSTD_outBuffer out{into, static_cast<std::size_t>(size), 0};
    while (out.pos == 0) {
      if (s.in.pos == s.in.size && !s.flushing) {
        const std::streamsize n =
            io::read(source, s.buffer.data(), static_cast<std::streamsize>(s.buffer.size()));
        if (n <= 0) {
          if (s.frame_open) throw std::runtime_error("it ends inside a frame");
          return -1;
        }
        s.in = {s.buffer.data(), static_cast<std::size_t>(n), 0};
      }
      const std::size_t left = ZSTD_decompressStream(s.stream.get(), &out, &s.in);
      if (ZSTD_isError(left)) throw std::runtime_error(ZSTD_getErrorName(left));
      s.frame_open = left != 0;
      // A full output may leave unpacked bytes behind in the library.
      s.flushing = s.frame_open && out.pos == out.size;
    }
    return static_cast<std::streamsize>(out.pos);
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  struct State {
    std::unique_ptr<ZSTD_DStream, Free> stream{ZSTD_createDStream()};
    std::vector<char> buffer = std::vector<char>(kBufferBytes);
    ZSTD_inBuffer in{nullptr, 0, 0};
    bool frame_open = false;
    bool flushing = false;
  };
  std::shared_ptr<State> state_;
};

std::string_view packing_of(std::string_view signature) {
  using namespace std::string_view_literals;
  if (signature.starts_with("\x1f\x8b"sv)) return "gzip";
  if (signature.starts_with("\x28\xb5\x2f\xfd"sv)) return "zstd";
  // A skippable frame, which parallel packers write first: 0x184D2A50 to 0x184D2A5F.
  if (signature.size() >= 4 && (signature[0] & 0xf0) == 0x50 &&
      signature.substr(1, 3) == "\x2a\x4d\x18"sv) {
    return "zstd";
  }
  if (signature.starts_with("\xfd"
                            "7zXZ\0"sv)) {
    return "xz";
  }
  // "BZh", a level, and the digits of pi (a block) or of its square root (no block at all).
  if (signature.starts_with("BZh"sv) && signature.size() >= 10 &&
      (signature.substr(4) == "\x31\x41\x59\x26\x53\x59"sv ||
       signature.substr(4) == "\x17\x72\x45\x38\x50\x90"sv)) {
    return "bzip2";
  }
  return "";
}

class Unpacked final : public ByteStream {
 public:
  explicit Unpacked(std::shared_ptr<Packed> packed) : packing_(packing_of(packed->signature())) {
    if (packing_ == "gzip") chain_.push(io::gzip_decompressor());
    if (packing_ == "zstd") chain_.push(ZstdFilter(), kBufferBytes);
    if (packing_ == "xz") chain_.push(io::lzma_decompressor());
    if (packing_ == "bzip2") chain_.push(io::bzip2_decompressor());
    chain_.push(PackedSource(std::move(packed)), kBufferBytes);
  }

  Result<std::size_t> read(char* into, std::size_t size) override {
    try {
      const std::streamsize n = chain_.sgetn(into, static_cast<std::streamsize>(size));
      return n <= 0 ? std::size_t{0} : static_cast<std::size_t>(n);
    } catch (const std::exception& error) {
      return fail(packing_.empty() ? ErrorCode::kInternal : ErrorCode::kDataLoss, error.what());
    }
  }

  std::string_view packing() const override { return packing_; }

 private:
  std::string_view packing_;
  io::filtering_istreambuf chain_;
};

Result<std::unique_ptr<ByteStream>> unpack(std::shared_ptr<Packed> packed) {
  try {
    return std::make_unique<Unpacked>(std::move(packed));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, error.what());
  }
}

}  // namespace

Result<std::unique_ptr<ByteStream>> unpack_descriptor(int fd) {
  return unpack(std::make_shared<Packed>(fd, std::string()));
}

Result<std::unique_ptr<ByteStream>> unpack_bytes(std::string bytes) {
  return unpack(std::make_shared<Packed>(-1, std::move(bytes)));
}

}  // namespace tailrace::dataset
