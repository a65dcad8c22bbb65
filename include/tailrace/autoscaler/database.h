// What stays on this machine when the program does not?
//
// One SQLite file with three things in it: orders from before they are carried out until it is
// known how they ended (journal.h), past cycles (history.h) and what was learnt (state_store.h).
// Every commit is on the disk before the call returns. One autoscaler writes; others, such as
// `tailrace explain`, may read at the same time. A file that is damaged is moved aside. Loop thread
// only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tailrace/core/result.h"

struct sqlite3;

namespace tailrace::autoscaler {

class Database {
 public:
  struct Opened;
  /// To write; `path` "" is in memory. Errors: kUnavailable (another autoscaler uses it),
  /// kUnsupported (written by a newer program), kInvalidArgument (no place for a file), kInternal.
  static Result<Opened> open(const std::string& path);
  /// To read only. Errors: kNotFound; kDataLoss; as above.
  static Result<std::unique_ptr<Database>> open_to_read(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Counts how often the file was opened to write: larger in each process than in all before.
  std::uint64_t generation() const { return generation_; }
  const std::string& path() const { return path_; }
  /// Errors: kDataLoss where the file was removed or replaced since it was opened: what is written
  /// now is gone with this process.
  Result<void> in_place() const;
  /// Keeps other autoscalers off it, as open() does. Errors: kUnavailable, kInvalidArgument.
  Result<void> lock();
  /// Lets others open it; for one who then opens its path anew.
  void unlock();
  /// Gone on with as if opened again: another generation, written down where the disk allows.
  void count_opening();
  sqlite3* handle() const { return handle_; }

 private:
  Database() = default;
  static Result<std::unique_ptr<Database>> connect(const std::string& path, bool to_read);
  Result<void> prepare();

  std::string path_;
  sqlite3* handle_ = nullptr;
  int lock_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;  ///< of the file that was opened to write
  std::uint64_t generation_ = 0;
};

struct Database::Opened {
  std::unique_ptr<Database> database;
  /// What was wrong with the file, and where it is now; then the database is empty.
  std::optional<Error> damage;
};

}  // namespace tailrace::autoscaler
