#include "tailrace/dataset/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "dataset/unpack.h"
#include "tailrace/core/printable.h"

namespace tailrace::dataset {
namespace {

constexpr std::size_t kChunkBytes = 65536;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

struct LineReader::Impl {
  std::unique_ptr<ByteStream> stream;
  std::string name;
  std::size_t max_line_bytes;

  std::vector<char> chunk = std::vector<char>(kChunkBytes);
  std::size_t begin = 0;  ///< of what is unread in `chunk`
  std::size_t end = 0;
  std::string line;
  std::uint64_t number = 0;
  std::uint64_t unpacked_bytes = 0;
  std::optional<Error> failed;

  /// False at the end of the input.
  Result<bool> fill() {
    auto n = stream->read(chunk.data(), chunk.size());
    if (!n) return fail(describe(n.error()));
    begin = 0;
    end = *n;
    unpacked_bytes += *n;
    return *n > 0;
  }

  Error describe(const Error& error) const {
    if (stream->packing().empty()) {
      return {error.code,
              fmt::format("{}: cannot read after line {}: {}", name, number, error.message)};
    }
    return {
        error.code,
        fmt::format("{}: the {} data is damaged or cut short after line {} ({} bytes unpacked): "
                    "{}; make or fetch the file again",
                    name, stream->packing(), number, unpacked_bytes, error.message)};
  }

  Error too_long() const {
    return {ErrorCode::kResourceExhausted,
            fmt::format("{}: line {} is longer than {} bytes; split the record over several lines",
                        name, number + 1, max_line_bytes)};
  }

  Result<std::optional<std::string_view>> read_line() {
    line.clear();
    for (;;) {
      if (begin == end) {
        const auto more = fill();
        if (!more) return fail(more.error());
        if (!*more) {
          if (line.empty()) return std::nullopt;
          break;
        }
      }
      const char* from = chunk.data() + begin;
      const auto* feed = static_cast<const char*>(std::memchr(from, '\n', end - begin));
      const std::size_t n = feed ? static_cast<std::size_t>(feed - from) : end - begin;
      if (line.size() + n > max_line_bytes) return fail(too_long());
      line.append(from, n);
      begin += n + (feed ? 1 : 0);
      if (feed) break;
    }
    ++number;
    std::string_view view = line;
    if (number == 1 && view.starts_with(kByteOrderMark)) view.remove_prefix(kByteOrderMark.size());
    if (view.ends_with('\r')) view.remove_suffix(1);
    return view;
  }
};

LineReader::LineReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

Result<LineReader> LineReader::open(const std::string& path, std::size_t max_line_bytes) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? 0 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string name = standard_input ? "standard input" : core::printable(path);
  if (fd < 0) {
    const bool nowhere =
        errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG || errno == ELOOP;
    return fail(nowhere ? ErrorCode::kNotFound : ErrorCode::kInternal,
                fmt::format("{}: cannot open: {}", name, std::strerror(errno)));
  }
  struct stat about{};
  if (::fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
    if (!standard_input) ::close(fd);
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: it is a folder; give a file", name));
  }
  auto stream = unpack_descriptor(fd);
  if (!stream) return fail(stream.error().with_context(name + ": cannot read"));
  auto impl = std::make_unique<Impl>();
  impl->stream = std::move(*stream);
  impl->name = std::move(name);
  impl->max_line_bytes = max_line_bytes;
  return LineReader(std::move(impl));
}

Result<LineReader> LineReader::from_bytes(std::string bytes, std::string name,
                                          std::size_t max_line_bytes) {
  auto stream = unpack_bytes(std::move(bytes));
  if (!stream) return fail(stream.error().with_context(name));
  auto impl = std::make_unique<Impl>();
  impl->stream = std::move(*stream);
  impl->name = std::move(name);
  impl->max_line_bytes = max_line_bytes;
  return LineReader(std::move(impl));
}

Result<std::optional<std::string_view>> LineReader::next() {
  if (impl_->failed) return fail(*impl_->failed);
  auto line = impl_->read_line();
  if (!line) impl_->failed = line.error();
  return line;
}

std::uint64_t LineReader::line_number() const {
  return impl_->number;
}

const std::string& LineReader::name() const {
  return impl_->name;
}

Error LineReader::at_line(ErrorCode code, std::string_view what) const {
  return {code, fmt::format("{}: line {}: {}", impl_->name, impl_->number, what)};
}

}  // namespace tailrace::dataset
