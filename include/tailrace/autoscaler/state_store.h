// Where does what was learnt stay, when the program does not?
//
// One interface, two homes: an SQLite file on one machine, a ConfigMap in a cluster. A write
// replaces the whole document or nothing. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tailrace/core/result.h"
#include "tailrace/core/unique_function.h"

namespace tailrace::autoscaler {

class StateStore {
 public:
  virtual ~StateStore() = default;
  /// Empty: nothing was stored yet. Errors: kUnavailable, kDataLoss.
  virtual void load(UniqueFunction<void(Result<std::optional<std::string>>)> done) = 0;
  virtual void save(std::string document, UniqueFunction<void(Result<void>)> done) = 0;
};

}  // namespace tailrace::autoscaler
