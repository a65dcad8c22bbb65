// The process actuator's inside: what each replica is doing, and the gateway's view of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autoscaler/gateway_admin.h"
#include "autoscaler/process_registry.h"
#include "tailrace/autoscaler/process_actuator.h"

namespace tailrace::autoscaler {

struct Replica {
  std::shared_ptr<const ProcessVariant> variant;
  RegistryEntry entry;
  MonoTime since{};                 ///< it is in its state
  MonoTime retry_at{}, probe_at{};  ///< of a failed one; of a starting one
  std::int64_t running = 0;         ///< answers that it gives, as the gateway says
  bool probing = false;
  bool announce = true;  ///< registered once by us, whatever the gateway says that it knows
  bool forced = false;   ///< SIGKILL was said
  std::string message;

  bool active() const;  ///< counts for its variant
};

class ProcessActuatorImpl final : public ProcessActuator {
 public:
  ProcessActuatorImpl(net::EventLoop& loop, net::Network& network, const Calendar& calendar,
                      ProcessRunner& runner, ProcessActuatorConfig config);
  ~ProcessActuatorImpl() override;
  ProcessActuatorImpl(const ProcessActuatorImpl&) = delete;
  ProcessActuatorImpl& operator=(const ProcessActuatorImpl&) = delete;

  /// Locks the folder, reads the registry, takes over. Errors: as make().
  Result<void> open();

  void apply(std::vector<Order> orders, UniqueFunction<void(std::vector<Outcome>)> done) override;
  std::vector<ReplicaStatus> replicas() const override;
  std::optional<std::int64_t> target(std::string_view variant) const override;
  std::string gateway_problem() const override { return gateway_problem_; }
  void stop_all(UniqueFunction<void()> done) override;

 private:
  struct SyncRound;

  Result<void> lock_folder();
  void adopt(const RegistryEntry& entry);
  std::shared_ptr<const ProcessVariant> variant_of(std::string_view name) const;

  void arm();
  void step();
  void look_at_processes();
  void ended(Replica& replica, const std::string& how);
  void failed(Replica& replica, std::string why);
  void adjust(const std::shared_ptr<const ProcessVariant>& variant);
  void grow(const std::shared_ptr<const ProcessVariant>& variant, std::int64_t by);
  void shrink(const ProcessVariant& variant, std::int64_t by);
  void retire(Replica& replica);
  void start(Replica& replica);
  void probe(Replica& replica);
  void probed(const std::string& name, const ProcessId& process,
              const Result<net::WholeAnswer>& answer);
  void advance(Replica& replica);
  void stop(Replica& replica);
  void enter(Replica& replica, ReplicaState state);
  void forget_gone();
  void trim_logs();
  bool save();

  void sync();
  void plan(const std::vector<GatewayBackend>& known);
  void put(Replica& replica, const std::shared_ptr<SyncRound>& round);
  void remove(Replica& replica, const std::shared_ptr<SyncRound>& round);
  void synced(const std::optional<std::string>& problem, bool again);

  std::vector<Replica*> of(const ProcessVariant& variant) const;
  Replica* find(std::string_view name) const;
  std::pair<std::uint16_t, std::uint16_t> ports_of(const ProcessVariant& variant) const;
  std::optional<std::uint16_t> pick_port(const Replica& replica);
  std::string marker(std::string_view name) const;
  std::string log_path(std::string_view name) const;
  std::string url_of(std::uint16_t port) const;
  std::string state_of_variant(const ProcessVariant& variant, bool& all_well) const;

  net::EventLoop& loop_;
  const Calendar& calendar_;
  ProcessRunner& runner_;
  ProcessActuatorConfig config_;
  HttpRequests requests_;
  std::optional<GatewayAdmin> admin_;
  std::vector<std::shared_ptr<const ProcessVariant>> variants_;
  std::map<std::string, std::int64_t, std::less<>> targets_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  int lock_ = -1;
  std::map<std::string, std::uint16_t> next_port_;  ///< by variant; "": of the common range
  bool full_said_ = false;
  bool ending_ = false;  ///< everything stops, whatever the targets
  bool unsaved_ = false;
  bool syncing_ = false;
  MonoTime sync_at_{};
  std::string gateway_problem_, save_problem_;
  UniqueFunction<void()> all_stopped_;
  std::unique_ptr<net::Timer> timer_;
};

}  // namespace tailrace::autoscaler
