// What does the operator want of the autoscaler as a program?
//
// autoscaler.yaml: where metrics come from, whose replicas are moved and how, where answers go and
// what stays over a restart. SLOs, windows and everything else that changes decisions stand in the
// analyzer's own settings (capacity/config.h), which are read again in every cycle. Every key is
// declared once, in config_schema.cc; docs/autoscaler-configuration.md is generated from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/environment.h"
#include "tailrace/core/log.h"
#include "tailrace/core/result.h"
#include "tailrace/core/time.h"
#include "tailrace/net/stream.h"
#include "tailrace/observe/observer.h"

namespace tailrace::autoscaler {

enum class Platform { kMachine, kKubernetes };
enum class SourceKind { kScrape, kPrometheus };

struct PrometheusConfig {
  net::Url url{{"127.0.0.1", 9090, false}, ""};
  std::string token_env, token_file;
  std::vector<std::string> headers;  ///< "Name: value"
  std::string matchers;              ///< PromQL, added to every selector
  std::string ca_file, client_certificate_file, client_key_file;
  bool insecure_skip_verify = false;
  std::string token;  ///< read from token_env by read_secrets; a token_file is read by its user
  Duration timeout = std::chrono::seconds(10);
};

/// One way to serve a model on this machine.
struct MachineVariant {
  std::string name, ns = "default", model;
  std::string accelerator;
  double cost = 10;
  std::int64_t min = 0, max = 1;
  observe::EngineKind engine = observe::EngineKind::kVllm;
  std::vector<std::string> command;  ///< program and arguments; {port}, {name}, {model} stand for
                                     ///< this replica's
  std::vector<std::string> env;      ///< "NAME=value", besides our own environment
  std::string folder;                ///< to start it in; "": ours
  int first_port = 0;                ///< replicas listen on first_port … first_port + max − 1
  int slots = 16;                    ///< requests that one replica holds at once
  std::int64_t max_batched_tokens = 0, kv_tokens = 0;  ///< 0: not known
  std::string health_path = "/health", metrics_path = "/metrics";
  Duration start_limit = std::chrono::minutes(5);  ///< until healthy, else it has failed
  Duration stop_grace = std::chrono::seconds(30);  ///< from SIGTERM to SIGKILL
  Duration drain_limit = std::chrono::minutes(2);  ///< for requests under way, before SIGTERM
};

struct LeaseSettings {
  bool enabled = true;
  std::string name = "tailrace-autoscaler";
  std::string ns;  ///< "": our own
  Duration duration = std::chrono::seconds(15), renew = std::chrono::seconds(10),
           retry = std::chrono::seconds(2);
};

struct KubernetesConfig {
  std::string kubeconfig;               ///< "": the pod's service account
  std::vector<std::string> namespaces;  ///< empty: all
  std::string controller_instance;
  LeaseSettings lease;
};

struct SettingsConfig {
  std::string file;            ///< manifest, plain file, or mounted folder
  std::string config_map, ns;  ///< watched through the API
};

/// The listener for metrics, health and decisions.
struct ListenConfig {
  bool enabled = true;
  net::Endpoint listen{"127.0.0.1", 9091, false};
  bool wva_names = true;  ///< also wva_* series, as the workload-variant-autoscaler exports them
};

struct KedaConfig {
  bool enabled = false;
  net::Endpoint listen{"127.0.0.1", 9092, false};
};

/// Processes on this machine, and the gateway that sends them requests.
struct ProcessesConfig {
  std::optional<net::Url> gateway;  ///< its admin listener; empty: nobody is told
  std::string token_env, token_file;
  std::string token;   ///< filled by read_secrets
  std::string folder;  ///< of what the processes print; "": beside the database
};

struct DecisionLogConfig {
  std::string file;  ///< "": none; "-": standard output
  std::size_t bytes_max = std::size_t{64} << 20;
  int files_kept = 3;  ///< older ones, besides the one that is written
};

struct HistoryConfig {
  bool enabled = true;
  Duration keep = std::chrono::hours(24 * 7);
};

struct StateConfig {
  std::string config_map, ns;  ///< "": in the database
  Duration every = std::chrono::seconds(60);
};

struct Config {
  Duration interval = std::chrono::seconds(15);
  Platform platform = Platform::kMachine;
  SourceKind source = SourceKind::kScrape;
  bool scale = true;  ///< false: recommend only
  Duration apply_timeout = std::chrono::seconds(30);
  std::string database = "tailrace-autoscaler.db";  ///< "": in memory
  SettingsConfig settings;
  PrometheusConfig prometheus;
  Duration scrape_timeout = std::chrono::seconds(5);
  std::optional<net::Url> gateway_metrics;  ///< of the gateway, to be scraped too
  Duration window = std::chrono::seconds(60), stale_after = std::chrono::seconds(60),
           unavailable_after = std::chrono::seconds(300);
  std::vector<MachineVariant> variants;
  KubernetesConfig kubernetes;
  ListenConfig metrics;
  KedaConfig keda;
  ProcessesConfig processes;
  DecisionLogConfig decision_log;
  HistoryConfig history;
  StateConfig state;
  log::Level log_level = log::Level::kInfo;
  log::Format log_format = log::Format::kLogfmt;
};

inline constexpr std::size_t kConfigBytesMax = std::size_t{1} << 20;

/// Reads YAML text; `origin` names it in errors. Environment variables (TAILRACE_AUTOSCALER_…)
/// override scalar keys of sections. No secret is read. Errors: kInvalidArgument, one line per
/// problem.
Result<Config> parse_config(std::string_view text, std::string_view origin,
                            const core::Environment& environment = core::no_environment());

/// Reads the tokens that `config` names. Errors: kInvalidArgument with the path of the key.
Result<void> read_secrets(Config& config, const core::Environment& environment);

/// parse_config of a file, then read_secrets. Errors: also kNotFound and kResourceExhausted.
Result<Config> load_config(const std::string& path, const core::Environment& environment);

/// Is this the text of an autoscaler's file, rather than of a gateway's? By the keys of its top.
bool looks_like_autoscaler(std::string_view text);

/// What it will do, a line each; no secrets.
std::string summarize(const Config& config);
/// The same as one JSON object.
std::string summarize_json(const Config& config);

/// docs/autoscaler-configuration.md.
std::string configuration_reference();

}  // namespace tailrace::autoscaler
