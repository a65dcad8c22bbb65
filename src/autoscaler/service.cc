#include "tailrace/autoscaler/service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "autoscaler/process_registry.h"
#include "autoscaler/status_server.h"
#include "tailrace/autoscaler/collector.h"
#include "tailrace/autoscaler/keda.h"
#include "tailrace/autoscaler/metrics_output.h"
#include "tailrace/autoscaler/metrics_source.h"
#include "tailrace/autoscaler/scale_actuator.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::size_t kRegistryBytesMax = std::size_t{16} << 20;
/// Between the two readings of a single cycle at most; somebody waits for it.
constexpr Duration kSecondLook = std::chrono::seconds(5);

/// What the processes' registry says, without touching them: for a dry run beside another.
std::vector<ReplicaStatus> registered_replicas(const ProcessActuatorConfig& config) {
  const auto text =
      core::read_regular_file(config.folder + std::string(kRegistryFile), kRegistryBytesMax);
  if (!text) return {};
  const auto registry = parse_registry(*text);
  if (!registry) {
    log::warn("registry", {{"message", registry.error().message}});
    return {};
  }
  std::vector<ReplicaStatus> out;
  for (const auto& entry : registry->entries) {
    ReplicaStatus status;
    for (const auto& variant : config.variants) {
      if (variant.name == entry.variant) status.key = variant.key;
    }
    status.variant = entry.variant;
    status.name = entry.name;
    status.index = entry.index;
    status.state = entry.state;
    status.url = {{config.host, entry.port, false}, ""};
    status.started_at_s = entry.started_at_s;
    status.failures = entry.failures;
    out.push_back(std::move(status));
  }
  return out;
}

std::string identity() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "tailrace-autoscaler";
  return fmt::format("{}:{}", name, ::getpid());
}

class ServiceImpl final : public Service {
 public:
  ServiceImpl(net::EventLoop& loop, net::Network& network, Config config, ServiceOptions options)
      : loop_(loop), network_(network), config_(std::move(config)), options_(std::move(options)) {}

  Result<void> open();
  void start(UniqueFunction<void(const CycleReport&)> on_end) override;
  void stop(UniqueFunction<void()> done) override;
  std::shared_ptr<Database> database() const override {
    return options_.dry_run ? nullptr : database_;
  }
  std::optional<net::Endpoint> endpoint() const override {
    return server_ ? std::optional(server_->local()) : std::nullopt;
  }

 private:
  Result<void> open_database();
  Result<void> open_to_write();
  Result<void> open_processes();
  Result<void> open_cluster();
  Result<void> open_listener();
  void make_loop();
  void publish(const CycleReport& report);

  net::EventLoop& loop_;
  net::Network& network_;
  Config config_;
  ServiceOptions options_;
  SystemCalendar calendar_;
  std::unique_ptr<net::Network> api_network_;  ///< trusts the cluster's own certificates
  std::unique_ptr<kubernetes::Api> api_;
  std::shared_ptr<Database> database_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<History> history_;
  std::unique_ptr<StateStore> state_;
  std::unique_ptr<DecisionLog> decision_log_;
  std::unique_ptr<kubernetes::Discovery> discovery_;
  std::unique_ptr<kubernetes::EventRecorder> events_;
  std::unique_ptr<ScaleActuator> scale_;
  std::unique_ptr<kubernetes::LeaderElector> elector_;
  std::unique_ptr<SettingsSource> settings_;
  std::unique_ptr<observe::Source> source_;
  std::unique_ptr<ProcessRunner> runner_;
  std::unique_ptr<ProcessActuator> processes_;
  std::unique_ptr<Roster> roster_;
  std::unique_ptr<SnapshotCollector> collector_;
  std::unique_ptr<ControlLoop> control_;
  std::unique_ptr<MetricsOutput> metrics_;
  KedaBoard keda_board_;
  std::unique_ptr<KedaServer> keda_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<net::Timer> warm_up_;
};

Result<void> ServiceImpl::open() {
  const bool machine = config_.platform == Platform::kMachine;
  if (auto ok = open_database(); !ok) return ok;
  auto source = make_metrics_source(loop_, config_);
  if (!source) return fail(source.error());
  source_ = std::move(*source);
  if (auto ok = machine ? open_processes() : open_cluster(); !ok) return ok;
  if (!config_.settings.file.empty()) {
    settings_ = mounted_settings(config_.settings.file);
  } else if (!settings_) {
    settings_ = built_in_settings();
  }
  auto observer = observer_config(config_);
  if (options_.once) observer.grace_s = 0;  // there is no later cycle to say it in
  collector_ = std::make_unique<SnapshotCollector>(*roster_, *source_, observer);
  make_loop();
  return options_.once ? Result<void>() : open_listener();
}

Result<void> ServiceImpl::open_database() {
  if (options_.dry_run) {
    // Beside one that runs, or before the first: what it has learnt is read, nothing is written.
    auto read = Database::open_to_read(config_.database);
    if (read) {
      database_ = std::move(*read);
      state_ = database_state_store(*database_);
    } else if (read.error().code != ErrorCode::kNotFound) {
      return fail(read.error());
    }
    return {};
  }
  if (auto ok = open_to_write(); !ok) return ok;
  journal_ = std::make_unique<Journal>(*database_);
  if (config_.history.enabled) history_ = std::make_unique<History>(*database_);
  state_ = database_state_store(*database_);
  if (config_.decision_log.file.empty()) return {};
  auto log = DecisionLog::open(config_.decision_log.file, config_.decision_log.bytes_max,
                               config_.decision_log.files_kept, options_.must_go_on);
  if (!log) return fail(log.error().with_context("decision_log.file"));
  decision_log_ = std::move(*log);
  return {};
}

Result<void> ServiceImpl::open_to_write() {
  const auto before = std::exchange(options_.database, nullptr);
  const bool same = before && before->path() == config_.database;
  if (same && before->in_place()) {
    // A full disk would refuse to have it opened anew.
    before->count_opening();
    database_ = before;
    return {};
  }
  if (same) before->unlock();
  auto opened = Database::open(config_.database);
  if (opened) {
    if (opened->damage) log::error("database", {{"message", opened->damage->message}});
    database_ = std::move(opened->database);
    return {};
  }
  if (!same || opened.error().code == ErrorCode::kUnavailable) return fail(opened.error());
  log::error("database", {{"message", opened.error().message +
                                          "; the removed one is gone on with, and what is written "
                                          "to it ends with this process"}});
  (void)before->lock();  // in vain where its folder is gone: then nobody else can open it either
  before->count_opening();
  database_ = before;
  return {};
}

Result<void> ServiceImpl::open_processes() {
  auto made = process_actuator_config(config_);
  if (options_.dry_run || !config_.scale) {
    roster_ =
        machine_roster(config_, [made = std::move(made)] { return registered_replicas(made); });
    return {};
  }
  runner_ = make_process_runner();
  auto actuator = ProcessActuator::make(loop_, network_, calendar_, *runner_, std::move(made));
  if (!actuator) return fail(actuator.error());
  processes_ = std::move(*actuator);
  roster_ = machine_roster(config_, [this] { return processes_->replicas(); });
  return {};
}

Result<void> ServiceImpl::open_cluster() {
  const auto& k = config_.kubernetes;
  auto access = k.kubeconfig.empty() ? kubernetes::in_cluster_access()
                                     : kubernetes::kubeconfig_access(k.kubeconfig);
  if (!access) return fail(access.error().with_context("kubernetes.kubeconfig"));
  const std::string own = access->ns;
  const auto in = [&own](const std::string& ns) { return ns.empty() ? own : ns; };
  api_network_ = net::make_socket_network(loop_, kubernetes::tls_options(*access));
  api_ = kubernetes::Api::make(loop_, *api_network_, std::move(*access));
  kubernetes::DiscoveryConfig discovery;
  discovery.namespaces = k.namespaces;
  discovery.controller_instance = k.controller_instance;
  discovery_ = kubernetes::Discovery::make(loop_, *api_, std::move(discovery));
  if (config_.scale && !options_.dry_run) {
    kubernetes::EventsConfig events;
    events.instance = identity();
    events_ = kubernetes::EventRecorder::make(*api_, calendar_, std::move(events));
    scale_ = ScaleActuator::make(*api_, events_.get());
  }
  roster_ = cluster_roster(*discovery_, config_, [this](const kubernetes::Inventory& inventory) {
    if (scale_) scale_->see(inventory);
  });
  const auto& settings = config_.settings;
  if (!settings.config_map.empty()) {
    settings_ = watched_settings(*api_, in(settings.ns), settings.config_map);
  }
  if (!config_.state.config_map.empty()) {
    state_ = config_map_state_store(*api_, in(config_.state.ns), config_.state.config_map);
  }
  if (!k.lease.enabled || options_.dry_run) return {};
  kubernetes::LeaseConfig lease;
  lease.ns = in(k.lease.ns);
  lease.name = k.lease.name;
  lease.identity = identity();
  lease.lease_s = to_seconds(k.lease.duration);
  lease.renew_s = to_seconds(k.lease.renew);
  lease.retry_s = to_seconds(k.lease.retry);
  if (auto ok = lease.check(); !ok) return fail(ok.error().with_context("kubernetes.lease"));
  elector_ = kubernetes::LeaderElector::make(
      loop_, *api_, calendar_, std::move(lease), [](const kubernetes::Leadership& now) {
        log::info("leadership",
                  {{"leads", now.leads}, {"holder", now.holder}, {"reason", now.reason}});
      });
  return {};
}

void ServiceImpl::make_loop() {
  LoopConfig loop;
  loop.interval = config_.interval;
  loop.apply_timeout = config_.apply_timeout;
  loop.state_every = config_.state.every;
  loop.history_keep = config_.history.keep;
  loop.identity = identity();
  loop.generation = database_ && !options_.dry_run ? database_->generation() : 1;
  loop.dry_run = options_.dry_run;
  const auto& lease = config_.kubernetes.lease;
  // Seen, held against us for its whole time, taken.
  loop.lead_wait = lease.duration + 3 * lease.retry;
  LoopParts parts;
  parts.loop = &loop_;
  parts.calendar = &calendar_;
  parts.settings = settings_.get();
  parts.collector = collector_.get();
  if (processes_) parts.actuators.push_back(processes_.get());
  if (scale_) parts.actuators.push_back(scale_.get());
  parts.journal = journal_.get();
  parts.history = history_.get();
  parts.decision_log = decision_log_.get();
  parts.state = state_.get();
  parts.elector = elector_.get();
  control_ = std::make_unique<ControlLoop>(std::move(loop), std::move(parts));
}

Result<void> ServiceImpl::open_listener() {
  MetricsOutputConfig metrics;
  metrics.wva_names = config_.metrics.wva_names;
  metrics.controller_instance = config_.kubernetes.controller_instance;
  metrics.version = options_.version;
  metrics.interval_s = to_seconds(config_.interval);
  metrics_ = std::make_unique<MetricsOutput>(std::move(metrics));
  if (config_.keda.enabled) {
    auto keda = KedaServer::listen(config_.keda.listen, keda_board_);
    if (!keda) return fail(keda.error().with_context("keda.listen"));
    keda_ = std::move(*keda);
  }
  if (!config_.metrics.enabled) return {};
  StatusPages pages;
  pages.unhealthy = [this] { return control_->unhealthy(); };
  pages.unready = [this] {
    if (control_->latest() == nullptr) return std::string("no cycle has ended yet");
    return control_->unhealthy();
  };
  pages.metrics = [this] { return metrics_->expose(); };
  pages.decisions = [this] {
    const auto* latest = control_->latest();
    return latest == nullptr ? std::string() : report_json(*latest);
  };
  auto server = serve_status(loop_, network_, config_.metrics.listen, std::move(pages));
  if (!server) return fail(server.error().with_context("metrics.listen"));
  server_ = std::move(*server);
  return {};
}

void ServiceImpl::publish(const CycleReport& report) {
  CycleFacts facts;
  facts.leads = report.leads;
  if (elector_) facts.elected = report.leads;
  facts.duration_s = report.collect_s + report.think_s + report.apply_s;
  facts.collect_s = report.collect_s;
  facts.errors = report.errors();
  facts.snapshot = report.snapshot.get();
  metrics_->record(report.record, facts);
  keda_board_.record(report.record, report.leads);
  if (!keda_) return;
  if (const auto served = keda_->serve(report.leads); !served) {
    log::warn("keda_not_served", {{"error", served.error().message}});
  }
}

void ServiceImpl::start(UniqueFunction<void(const CycleReport&)> on_end) {
  if (!options_.once) {
    return control_->start([this](const CycleReport& report) { publish(report); });
  }
  if (config_.source == SourceKind::kPrometheus) return control_->run_once(std::move(on_end));
  // Counters become rates by two readings; exporters remember nothing.
  collector_->collect(
      calendar_.unix_s(), [this, on_end = std::move(on_end)](const Snapshot&) mutable {
        const Duration pause = std::min(config_.interval, kSecondLook);
        log::info("second_look", {{"in_seconds", to_seconds(pause)},
                                  {"message", "rates need two readings of the exporters"}});
        warm_up_ = loop_.after(pause, [this, on_end = std::move(on_end)]() mutable {
          control_->run_once(std::move(on_end));
        });
      });
}

void ServiceImpl::stop(UniqueFunction<void()> done) {
  warm_up_.reset();
  if (server_) server_->close_when_idle();
  control_->stop(std::move(done));
}

}  // namespace

Result<std::unique_ptr<Service>> Service::make(net::EventLoop& loop, net::Network& network,
                                               Config config, ServiceOptions options) {
  auto service =
      std::make_unique<ServiceImpl>(loop, network, std::move(config), std::move(options));
  if (auto opened = service->open(); !opened) return fail(opened.error());
  return service;
}

}  // namespace tailrace::autoscaler
