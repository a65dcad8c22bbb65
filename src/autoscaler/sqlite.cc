#include "autoscaler/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

/// sqlite3_bind_text takes it to mean: copy.
const sqlite3_destructor_type kCopy = SQLITE_TRANSIENT;  // NOLINT

}  // namespace

Error sqlite_error(sqlite3* database, std::string_view doing) {
  const int code = sqlite3_errcode(database) & 0xff;
  const char* file = sqlite3_db_filename(database, "main");
  const bool named = file != nullptr && *file != '\0' && doing == "database";
  const std::string said =
      named ? fmt::format("database {}: {}", core::quoted(file, 256), sqlite3_errmsg(database))
            : fmt::format("{}: {}", doing, sqlite3_errmsg(database));
  switch (code) {
    case SQLITE_FULL:
      return {ErrorCode::kResourceExhausted, said + "; free some space on its disk"};
    case SQLITE_IOERR:
      return {ErrorCode::kInternal,
              said + "; look at its disk, and whether the file is still there"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::kDataLoss, said};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable, said + "; another program holds it"};
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return {ErrorCode::kInvalidArgument, said + "; name a file that can be written"};
    default:
      return {ErrorCode::kInternal, said};
  }
}

Result<void> execute(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fail(sqlite_error(database, "database"));
}

Statement::Statement(sqlite3* database, std::string_view sql) : database_(database) {
  code_ =
      sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

Statement& Statement::bind(std::string_view text) {
  if (code_ == SQLITE_OK) {
    code_ = sqlite3_bind_text64(statement_, next_++, text.data(), text.size(), kCopy, SQLITE_UTF8);
  }
  return *this;
}

Statement& Statement::bind(double number) {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_double(statement_, next_++, number);
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, next_++, number);
  return *this;
}

Result<bool> Statement::step() {
  if (code_ != SQLITE_OK) return fail(sqlite_error(database_, "database"));
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return fail(sqlite_error(database_, "database"));
}

Result<void> Statement::run() {
  while (true) {
    const auto row = step();
    if (!row) return fail(row.error());
    if (!*row) return {};
  }
}

void Statement::reset() {
  sqlite3_reset(statement_);
  next_ = 1;
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes == nullptr
             ? std::string()
             : std::string(bytes,
                           static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

double Statement::number(int column) const {
  return sqlite3_column_double(statement_, column);
}

std::int64_t Statement::whole(int column) const {
  return sqlite3_column_int64(statement_, column);
}

Transaction::Transaction(sqlite3* database)
    : database_(database),
      begun_(execute(database, "BEGIN IMMEDIATE")),
      open_(begun_.has_value()) {}

Transaction::~Transaction() {
  if (open_) (void)execute(database_, "ROLLBACK");
}

Result<void> Transaction::commit() {
  if (!begun_) return begun_;
  auto done = execute(database_, "COMMIT");
  // A commit that found the disk full may have been rolled back already.
  open_ = !done && sqlite3_get_autocommit(database_) == 0;
  return done;
}

}  // namespace tailrace::autoscaler
