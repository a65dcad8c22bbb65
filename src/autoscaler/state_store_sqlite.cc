#include "autoscaler/sqlite.h"
#include "tailrace/autoscaler/database.h"
#include "tailrace/autoscaler/state_store.h"

namespace tailrace::autoscaler {
namespace {

class DatabaseStateStore final : public StateStore {
 public:
  explicit DatabaseStateStore(Database& database) : database_(database) {}

  void load(UniqueFunction<void(Result<std::optional<std::string>>)> done) override {
    Statement statement(database_.handle(), "SELECT document FROM state");
    const auto row = statement.step();
    if (!row) return done(fail(row.error()));
    done(*row ? std::optional(statement.text(0)) : std::nullopt);
  }

  void save(std::string document, UniqueFunction<void(Result<void>)> done) override {
    Statement statement(database_.handle(),
                        "INSERT INTO state VALUES (1, ?) "
                        "ON CONFLICT (id) DO UPDATE SET document = excluded.document");
    done(statement.bind(document).run());
  }

 private:
  Database& database_;
};

}  // namespace

std::unique_ptr<StateStore> database_state_store(Database& database) {
  return std::make_unique<DatabaseStateStore>(database);
}

}  // namespace tailrace::autoscaler
