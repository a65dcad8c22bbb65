#include "tailrace/simulate/request_csv.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tailrace/core/temporary_file.h"
#include "tailrace/core/text.h"

namespace tailrace::simulate {
namespace {

constexpr std::size_t kBuffer = 64 * 1024;
constexpr std::string_view kColumns =
    "seed,id,end,arrival_s,dispatched_s,admitted_s,first_token_s,finished_s,prompt_tokens,"
    "cached_tokens,output_tokens,cap,engine_index,preemptions,tenant,predicted_median\n";

tl::unexpected<Error> failed(const std::string& path, std::string_view what) {
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("cannot write {}: {}: {}", core::quoted(path, 256), what, std::strerror(errno)));
}

/// A file that nobody can see, in `folder`, or -1.
int unseen_file(const std::string& folder) {
  const int file = core::nameless_file(folder, 0644);
  if (file >= 0) return file;
  const core::NamedFile named = core::named_file(folder + "/.tailrace");
  if (named.fd >= 0) ::unlink(named.name.c_str());
  return named.fd;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// A field of CSV: quoted where it must be. What a spreadsheet would take for a formula begins with
/// an apostrophe, unless it is a number.
std::string field(std::string_view given) {
  const bool formula = !given.empty() &&
                       std::string_view("=+-@\t\r").find(given[0]) != std::string_view::npos &&
                       !core::parse_double(given);
  const std::string text = (formula ? "'" : "") + std::string(given);
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string_view end_name(End end) {
  switch (end) {
    case End::kCompleted:
      return "completed";
    case End::kRefused:
      return "refused";
    case End::kUnfinished:
      return "unfinished";
  }
  return "";
}

/// Nanoseconds as seconds, every digit.
std::string seconds(std::optional<MonoTime> time) {
  if (!time) return "";
  const std::int64_t ns = time->time_since_epoch().count();
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

class FilePart final : public RequestLog::Part {
 public:
  FilePart(int file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}
  FilePart(const FilePart&) = delete;
  FilePart& operator=(const FilePart&) = delete;
  ~FilePart() override { ::close(file_); }

  void add(const RequestRecord& r) override {
    fmt::format_to(std::back_inserter(buffer_), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                   prefix_, r.id, end_name(r.end), seconds(r.arrival), seconds(r.dispatched),
                   seconds(r.admitted), seconds(r.first_token), seconds(r.finished),
                   r.prompt.count(), r.cached.count(), r.output.count(), r.cap.count(), r.engine,
                   r.preemptions, field(r.tenant),
                   r.predicted_median ? fmt::format("{:.6g}", *r.predicted_median) : "");
    if (buffer_.size() >= kBuffer) flush();
  }

  /// Appends all rows to `target`; false where a file could not be written or read.
  bool copy_to(int target) {
    flush();
    if (!good_ || ::lseek(file_, 0, SEEK_SET) != 0) return false;
    std::array<char, kBuffer> bytes;
    while (true) {
      const ssize_t n = ::read(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      if (n == 0) return true;
      if (!write_all(target, {bytes.data(), static_cast<std::size_t>(n)})) return false;
    }
  }

 private:
  void flush() {
    if (good_) good_ = write_all(file_, buffer_);
    buffer_.clear();
  }

  int file_;
  std::string prefix_;
  std::string buffer_;
  bool good_ = true;
};

}  // namespace

RequestCsv::RequestCsv(core::WriteTarget target, std::string folder, const Experiment& experiment,
                       int file)
    : target_(std::move(target)),
      folder_(std::move(folder)),
      experiment_(experiment),
      file_(file) {}

std::string_view RequestCsv::columns() {
  return kColumns.substr(0, kColumns.size() - 1);
}

RequestCsv::~RequestCsv() {
  ::close(file_);
}

Result<std::unique_ptr<RequestCsv>> RequestCsv::open(const std::string& path,
                                                     const Experiment& experiment) {
  auto target = core::write_target(path);
  if (!target) return fail(target.error());
  // Beside a pipe or a device there may be no place for a file.
  std::error_code none;
  std::string folder =
      target->in_place ? std::filesystem::temp_directory_path(none).string() : target->folder();
  const int file = unseen_file(folder);
  if (file < 0) return failed(path, "no file can be made in its folder");
  std::unique_ptr<RequestCsv> csv(
      new RequestCsv(std::move(*target), std::move(folder), experiment, file));
  std::string header;
  for (const Dimension& dimension : experiment.dimensions) header += field(dimension.name) + ",";
  if (!write_all(file, header + std::string(kColumns))) return failed(path, "write");
  return csv;
}

Result<std::unique_ptr<RequestLog::Part>> RequestCsv::begin(std::size_t cell, std::uint64_t seed) {
  const int file = unseen_file(folder_);
  if (file < 0) return failed(target_.path, "no file can be made in its folder");
  std::string prefix;
  for (std::size_t d = 0; d < experiment_.dimensions.size(); ++d) {
    prefix += field(experiment_.dimensions[d].labels[experiment_.cells[cell].labels[d]]) + ",";
  }
  return std::make_unique<FilePart>(file, prefix + std::to_string(seed));
}

Result<void> RequestCsv::end(std::unique_ptr<Part> part) {
  if (!static_cast<FilePart&>(*part).copy_to(file_)) return failed(target_.path, "write");
  return {};
}

Result<void> RequestCsv::commit() {
  const std::string& path = target_.path;
  if (::fsync(file_) != 0) return failed(path, "fsync");
  int into = -1;
  if (target_.in_place) {
    const auto opened = target_.open();
    if (!opened) return fail(ErrorCode::kUnavailable, opened.error().message);
    into = *opened;
  } else {
    const std::string temporary = core::give_name(file_, path);
    if (!temporary.empty()) {
      if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
      ::unlink(temporary.c_str());
      return failed(path, "rename");
    }
    // A file that cannot get a name is copied.
    into = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (into < 0) return failed(path, "open");
  }
  FilePart rows(::dup(file_), "");
  const bool copied = rows.copy_to(into);
  if (::close(into) != 0 || !copied) return failed(path, "write");
  return {};
}

}  // namespace tailrace::simulate
