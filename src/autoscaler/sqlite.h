// How is one SQL statement run without forgetting an error?
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tailrace::autoscaler {

/// What SQLite says of its last call, with the remedy where there is one: kResourceExhausted for a
/// full disk, kDataLoss for a damaged file, kUnavailable for a locked one, else kInternal.
Error sqlite_error(sqlite3* database, std::string_view doing);

/// Statements without parameters and rows.
Result<void> execute(sqlite3* database, const char* sql);

/// One statement; parameters from 1 in the order of bind calls. Texts are copied.
class Statement {
 public:
  Statement(sqlite3* database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text);
  Statement& bind(const std::string& text) { return bind(std::string_view(text)); }
  Statement& bind(const char* text) { return bind(std::string_view(text)); }
  Statement& bind(double number);
  Statement& bind(std::int64_t number);
  Statement& bind(std::uint64_t number) { return bind(static_cast<std::int64_t>(number)); }
  Statement& bind(bool value) { return bind(static_cast<std::int64_t>(value)); }

  /// True: a row is there. Errors: sqlite_error().
  Result<bool> step();
  /// Runs to its end. Errors: sqlite_error().
  Result<void> run();
  /// Ready for other parameters.
  void reset();

  std::string text(int column) const;
  double number(int column) const;
  std::int64_t whole(int column) const;

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int next_ = 1;
  int code_ = 0;
};

/// All or nothing: rolled back unless commit() succeeded.
class Transaction {
 public:
  explicit Transaction(sqlite3* database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  const Result<void>& begun() const { return begun_; }
  Result<void> commit();

 private:
  sqlite3* database_;
  Result<void> begun_;
  bool open_ = false;
};

}  // namespace tailrace::autoscaler
