#include "tailrace/core/text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/utf8.h"
#include "tailrace/core/printable.h"
#include "tailrace/core/temporary_file.h"
#include "tailrace/core/write_target.h"

namespace tailrace::core {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Error system_error(std::string_view what, const std::string& path) {
  if (errno == EISDIR) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} {}: it is a folder; give a file", what, quoted(path, 256))};
  }
  const bool nowhere =
      errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG || errno == ELOOP;
  const ErrorCode code = nowhere ? ErrorCode::kNotFound : ErrorCode::kInternal;
  return Error{code, fmt::format("{} {}: {}", what, quoted(path, 256), std::strerror(errno))};
}

/// Closes on scope exit; -1 is "nothing open".
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Result<void> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail(system_error("cannot write", path));
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

/// Others may read what we replace, so the new file may be read as well.
Result<void> fill(int fd, std::string_view bytes, const std::string& path) {
  if (const auto written = write_all(fd, bytes, path); !written) return written;
  if (::fchmod(fd, 0644) != 0 || ::fsync(fd) != 0) return fail(system_error("cannot write", path));
  return {};
}

/// A whole new file beside `path`, and its name. It has none while it is written, so that whoever
/// is killed then leaves nothing behind. Empty where the file system knows no such files.
Result<std::string> whole_file(const std::string& folder, const std::string& path,
                               std::string_view bytes) {
  const Descriptor file{nameless_file(folder, 0600)};
  if (file.fd < 0) return std::string();
  if (const auto ok = fill(file.fd, bytes, path); !ok) return fail(ok.error());
  return give_name(file.fd, path);
}

/// The same with a name from the beginning.
Result<std::string> growing_file(const std::string& path, std::string_view bytes) {
  const NamedFile made = named_file(path);
  const Descriptor file{made.fd};
  if (file.fd < 0) return fail(system_error("cannot create a temporary file beside", path));
  const auto ok = fill(file.fd, bytes, path);
  if (ok) return made.name;
  ::unlink(made.name.c_str());
  return fail(ok.error());
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool iequals(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<double> parse_double(std::string_view text) {
  return parse_whole<double>(text);
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text, at);
    if (bytes == 0) {
      out += '?';
      ++at;
    } else {
      out.append(text.substr(at, bytes));
      at += bytes;
    }
  }
  return out;
}

std::string_view utf8_prefix(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

std::string quoted(std::string_view text, std::size_t max_bytes) {
  const bool cut = text.size() > max_bytes;
  std::string escaped;
  for (const char c : utf8_prefix(text, max_bytes)) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  std::string out = "\"" + printable(escaped);
  out += cut ? "…\"" : "\"";
  return out;
}

namespace {

Result<std::string> read_all(const Descriptor& file, const std::string& path,
                             std::size_t max_bytes) {
  std::string bytes;
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::read(file.fd, buffer, sizeof buffer);
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail(system_error("cannot read", path));
    }
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(n));
    if (bytes.size() > max_bytes) {
      return fail(
          ErrorCode::kResourceExhausted,
          fmt::format("{} is larger than the limit of {} bytes", quoted(path, 256), max_bytes));
    }
  }
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return fail(system_error("cannot open", path));
  return read_all(file, path, max_bytes);
}

Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return fail(system_error("cannot open", path));
  struct stat kind{};
  if (::fstat(file.fd, &kind) != 0) return fail(system_error("cannot look at", path));
  if (!S_ISREG(kind.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is no regular file; name one", quoted(path, 256)));
  }
  return read_all(file, path, max_bytes);
}

Result<void> write_file_atomically(const std::string& path_given, std::string_view bytes) {
  const auto target = write_target(path_given);
  if (!target) return fail(target.error());
  const std::string& path = target->path;
  if (target->in_place) {
    const auto opened = target->open();
    if (!opened) return fail(opened.error());
    const Descriptor file{*opened};
    return write_all(file.fd, bytes, path);
  }
  const std::string folder = target->folder();
  auto named = whole_file(folder, path, bytes);
  if (!named) return fail(named.error());
  if (named->empty()) named = growing_file(path, bytes);
  if (!named) return fail(named.error());
  const std::string& temporary = *named;
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = system_error("cannot replace", path);
    ::unlink(temporary.c_str());
    return fail(error);
  }
  Descriptor parent{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (parent.fd < 0 || ::fsync(parent.fd) != 0) return fail(system_error("cannot sync", folder));
  return {};
}

}  // namespace tailrace::core
