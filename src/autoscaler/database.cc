#include "tailrace/autoscaler/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "autoscaler/sqlite.h"
#include "tailrace/core/move_aside.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kApplication = 0x74616c72;  // "talr"
constexpr int kBusyMillis = 2000;

constexpr const char* kCount =
    "INSERT INTO meta VALUES ('generation', 1) "
    "ON CONFLICT (name) DO UPDATE SET value = value + 1";

constexpr const char* kTables = R"(
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE orders (
  id TEXT PRIMARY KEY, cycle INTEGER NOT NULL, time_s REAL NOT NULL, ns TEXT NOT NULL,
  model TEXT NOT NULL, variant TEXT NOT NULL, accelerator TEXT NOT NULL, desired INTEGER NOT NULL,
  current INTEGER NOT NULL, pending INTEGER NOT NULL, reason TEXT NOT NULL, writer TEXT NOT NULL,
  generation INTEGER NOT NULL, line TEXT NOT NULL, closed INTEGER NOT NULL DEFAULT 0,
  logged INTEGER NOT NULL DEFAULT 0);
CREATE INDEX orders_open ON orders (closed, logged);
CREATE TABLE cycles (number INTEGER PRIMARY KEY, cycle INTEGER NOT NULL, time_s REAL NOT NULL,
  document TEXT NOT NULL);
CREATE INDEX cycles_time ON cycles (time_s);
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), document TEXT NOT NULL);
)";

Result<std::int64_t> pragma(sqlite3* handle, const char* sql) {
  Statement statement(handle, sql);
  const auto row = statement.step();
  if (!row) return fail(row.error());
  return *row ? statement.whole(0) : 0;
}

/// Damaged pages show when they are read, which may be much later; so all are, once.
Result<void> check_pages(sqlite3* handle) {
  Statement statement(handle, "PRAGMA quick_check(1)");
  const auto row = statement.step();
  if (!row) return fail(row.error());
  const std::string said = statement.text(0);
  if (said == "ok") return {};
  return fail(ErrorCode::kDataLoss, "database: " + said);
}

bool is_damage(const Error& error) {
  return error.code == ErrorCode::kDataLoss;
}

}  // namespace

Database::~Database() {
  sqlite3_close(handle_);
  unlock();
}

Result<std::unique_ptr<Database>> Database::connect(const std::string& path, bool to_read) {
  std::unique_ptr<Database> out(new Database);
  out->path_ = path;
  if (!to_read && !path.empty()) {
    if (auto locked = out->lock(); !locked) return fail(locked.error());
  }
  const int flags = to_read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const char* name = path.empty() ? ":memory:" : path.c_str();
  if (sqlite3_open_v2(name, &out->handle_, flags, nullptr) != SQLITE_OK) {
    return fail(sqlite_error(out->handle_, core::quoted(path, 256)));
  }
  sqlite3_extended_result_codes(out->handle_, 1);
  sqlite3_busy_timeout(out->handle_, kBusyMillis);
  return out;
}

/// SQLite's own locks are held for moments only; this one tells a second autoscaler at once.
Result<void> Database::lock() {
  const std::string file = path_ + ".lock";
  unlock();
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("database {}: {}; name a file in a folder that can be written",
                            core::quoted(path_, 256), std::strerror(errno)));
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return {};
  return fail(ErrorCode::kUnavailable,
              fmt::format("database {}: another autoscaler uses it; stop that one, or name another "
                          "file",
                          core::quoted(path_, 256)));
}

void Database::unlock() {
  if (lock_ >= 0) ::close(lock_);
  lock_ = -1;
}

void Database::count_opening() {
  (void)execute(handle_, kCount);
  ++generation_;
}

Result<void> Database::prepare() {
  const auto version = pragma(handle_, "PRAGMA user_version");
  if (!version) return fail(version.error());
  const auto application = pragma(handle_, "PRAGMA application_id");
  if (!application) return fail(application.error());
  const auto tables = pragma(handle_, "SELECT count(*) FROM sqlite_master");
  if (!tables) return fail(tables.error());
  const bool fresh = *version == 0 && *application == 0 && *tables == 0;
  if (!fresh && *application != kApplication) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("database {}: it is another program's; name another file",
                            core::quoted(path_, 256)));
  }
  if (*version > kVersion) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("database {}: version {} is of a newer program than this one, which "
                            "writes {}; name another file",
                            core::quoted(path_, 256), *version, kVersion));
  }
  if (!fresh) {
    if (auto good = check_pages(handle_); !good) return good;
  }
  if (auto ok = execute(handle_, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"); !ok) {
    return ok;
  }
  Transaction transaction(handle_);
  if (!transaction.begun()) return transaction.begun();
  if (fresh) {
    if (auto ok = execute(handle_, kTables); !ok) return ok;
    const auto mark =
        fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplication, kVersion);
    if (auto ok = execute(handle_, mark.c_str()); !ok) return ok;
  }
  if (auto ok = execute(handle_, kCount); !ok) return ok;
  const auto generation = pragma(handle_, "SELECT value FROM meta WHERE name = 'generation'");
  if (!generation) return fail(generation.error());
  generation_ = static_cast<std::uint64_t>(*generation);
  if (auto done = transaction.commit(); !done) return done;
  struct stat file{};
  if (!path_.empty() && ::stat(path_.c_str(), &file) == 0) {
    device_ = file.st_dev;
    inode_ = file.st_ino;
  }
  return {};
}

Result<void> Database::in_place() const {
  if (path_.empty() || inode_ == 0) return {};
  struct stat file{};
  if (::stat(path_.c_str(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_) {
    return {};
  }
  return fail(ErrorCode::kDataLoss,
              fmt::format("database {}: it was removed or replaced while in use; put it back, or "
                          "restart the autoscaler (SIGHUP), which begins a new one",
                          core::quoted(path_, 256)));
}

Result<Database::Opened> Database::open(const std::string& path) {
  Opened out;
  auto first = connect(path, false);
  if (!first) return fail(first.error());
  auto prepared = (*first)->prepare();
  if (prepared) {
    out.database = std::move(*first);
    return out;
  }
  if (!is_damage(prepared.error())) return fail(prepared.error());
  first->reset();
  const auto aside = core::move_aside(path);
  if (!aside) return fail(aside.error());
  for (const char* suffix : {"-wal", "-shm"}) {
    std::error_code unknown;
    if (std::filesystem::exists(path + suffix, unknown)) (void)core::move_aside(path + suffix);
  }
  auto second = connect(path, false);
  if (!second) return fail(second.error());
  if (auto again = (*second)->prepare(); !again) return fail(again.error());
  out.database = std::move(*second);
  out.damage = Error{
      ErrorCode::kDataLoss,
      fmt::format("{}: {}; the file is now {}, and an empty one takes its place",
                  core::quoted(path, 256), prepared.error().message, core::quoted(*aside, 256))};
  return out;
}

Result<std::unique_ptr<Database>> Database::open_to_read(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("database {}: there is no such file", core::quoted(path, 256)));
  }
  auto out = connect(path, true);
  if (!out) return out;
  const auto version = pragma((*out)->handle_, "PRAGMA user_version");
  if (!version) return fail(version.error());
  const auto application = pragma((*out)->handle_, "PRAGMA application_id");
  if (!application) return fail(application.error());
  if (*version != kVersion || *application != kApplication) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("database {}: it is no autoscaler's, or of another version",
                            core::quoted(path, 256)));
  }
  return out;
}

}  // namespace tailrace::autoscaler
