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
#include "tailrace/kubernetes/api.h"

namespace tailrace::autoscaler {

class StateStore {
 public:
  virtual ~StateStore() = default;
  /// Empty: nothing was stored yet. Errors: kUnavailable, kDataLoss.
  virtual void load(UniqueFunction<void(Result<std::optional<std::string>>)> done) = 0;
  virtual void save(std::string document, UniqueFunction<void(Result<void>)> done) = 0;
};

/// In a ConfigMap, whose size is bounded; `api` must outlive it.
std::unique_ptr<StateStore> config_map_state_store(kubernetes::Api& api, const std::string& ns,
                                                   const std::string& name);
/// A document of Brain::save() in at most `bytes_max` bytes: what was learnt of things that have
/// not been seen for longest goes first. As it was where that is not enough or it is none.
std::string shrink_state(std::string document, std::size_t bytes_max, std::size_t& dropped);

class Database;
/// In the file; `database` must outlive it.
std::unique_ptr<StateStore> database_state_store(Database& database);

}  // namespace tailrace::autoscaler
