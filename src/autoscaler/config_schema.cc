#include "autoscaler/config_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tailrace/core/log_field.h"
#include "tailrace/core/text.h"
#include "tailrace/net/address_field.h"

namespace tailrace::autoscaler {
namespace {

using core::bytes_field;
using core::choice_field;
using core::duration_field;
using core::Field;
using core::flag_field;
using core::int_field;
using core::real_field;
using core::required;
using core::SchemaVisitor;
using core::text_field;
using core::text_list_field;
using core::whole_field;
using net::endpoint_field;
using net::optional_url_field;
using net::url_field;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kDay = hours(24);
constexpr std::int64_t kReplicasMax = 1000;
constexpr std::int64_t kTokensMax = 1'000'000'000;

/// As text_list_field, but the same word may come twice.
Field command_field(std::string name, std::vector<std::string>& into, std::string help) {
  Field field = text_list_field(std::move(name), into, std::move(help));
  field.assign = [&into](std::string_view text) -> Result<void> {
    if (text.find('\0') != std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, "has a zero byte");
    }
    into.emplace_back(text);
    return {};
  };
  return field;
}

void visit_settings(SchemaVisitor& v, SettingsConfig& settings) {
  v.field(text_field("file", settings.file,
                     "The analyzer's settings: a ConfigMap manifest, a plain YAML file, or the "
                     "folder where the map is mounted. Read again in every cycle."));
  v.field(text_field("config_map", settings.config_map,
                     "Name of the ConfigMap instead, watched through the API; kubernetes only."));
  v.field(text_field("namespace", settings.ns, "Of that map; none: our own."));
}

void visit_metrics_source(SchemaVisitor& v, Config& config) {
  v.section("prometheus", "The Prometheus server, for source: prometheus.", [&] {
    PrometheusConfig& p = config.prometheus;
    v.field(url_field("url", p.url, "Its address, with the path that it may be served under."));
    v.field(text_field("token_env", p.token_env, "Environment variable with a bearer token."));
    v.field(text_field("token_file", p.token_file,
                       "File with the bearer token instead; read again when it changes."));
    v.field(core::withheld(text_list_field(
        "headers", p.headers, "\"Name: value\" for every request, such as X-Scope-OrgID.")));
    v.field(text_field("matchers", p.matchers,
                       "PromQL matchers that every series must meet, such as cluster=\"eu1\"."));
    v.field(text_field("ca_file", p.ca_file, "Certificates to trust instead of the system's."));
    v.field(text_field("client_certificate_file", p.client_certificate_file,
                       "To show to the server; with client_key_file."));
    v.field(text_field("client_key_file", p.client_key_file, "Its private key."));
    v.field(flag_field("insecure_skip_verify", p.insecure_skip_verify,
                       "Take any certificate; for experiments only."));
    v.field(duration_field("timeout", p.timeout, milliseconds(10), minutes(5),
                           "For all queries of a cycle, retries included."));
  });
  v.section("scrape", "Reading the exporters themselves, for source: scrape.", [&] {
    v.field(duration_field("timeout", config.scrape_timeout, milliseconds(10), minutes(5),
                           "For one exporter's answer."));
    v.field(optional_url_field("gateway", config.gateway_metrics,
                               "Where a tailrace gateway exports its metrics, path included: it "
                               "knows what waits before any engine sees it."));
  });
  v.section("observe", "What counts as known.", [&] {
    v.field(duration_field("window", config.window, seconds(1), hours(1),
                           "That rates and means are taken over."));
    v.field(duration_field("stale_after", config.stale_after, seconds(1), kDay,
                           "Older values are stale: replicas do not fall on them."));
    v.field(duration_field("unavailable_after", config.unavailable_after, seconds(1), kDay,
                           "Still older ones are not used at all."));
  });
}

void visit_variant(SchemaVisitor& v, MachineVariant& variant) {
  v.field(required(text_field("model", variant.model, "Name of the model, as requests spell it.")));
  v.field(text_field("namespace", variant.ns, "Models of different namespaces share nothing."));
  v.field(text_field("accelerator", variant.accelerator,
                     "What it runs on, such as H100 or CPU; parameters are learnt for each."));
  v.field(real_field("cost", variant.cost, 0, 1e9, "Of one replica, in any unit."));
  v.field(whole_field("min", variant.min, 0, kReplicasMax, "Fewest replicas."));
  v.field(whole_field("max", variant.max, 0, kReplicasMax, "Most replicas."));
  v.field(choice_field("engine", variant.engine,
                       {{"vllm", observe::EngineKind::kVllm},
                        {"sglang", observe::EngineKind::kSglang},
                        {"tensorrt-llm", observe::EngineKind::kTensorRtLlm},
                        {"llama.cpp", observe::EngineKind::kLlamaCpp}},
                       "Whose metric names it has; tailrace engine has those of vllm."));
  v.field(required(command_field("command", variant.command,
                                 "Program and arguments, no shell. {port}, {name}, {model}, "
                                 "{index} and {host} stand for the replica's port and name, the "
                                 "model, its number and the address it listens on.")));
  v.field(core::withheld(
      text_list_field("env", variant.env, "NAME=value pairs besides our own environment.")));
  v.field(text_field("folder", variant.folder, "Working folder; none: ours."));
  v.field(required(int_field("first_port", variant.first_port, 1, 65535,
                             "Replicas listen on this port and the next max - 1.")));
  v.field(
      int_field("slots", variant.slots, 1, 100'000, "Requests that one replica holds at once."));
  v.field(whole_field("max_batched_tokens", variant.max_batched_tokens, 0, kTokensMax,
                      "Tokens of one iteration, as the engine's flag; 0: not known."));
  v.field(whole_field("kv_tokens", variant.kv_tokens, 0, kTokensMax,
                      "Tokens that fit into the KV cache; 0: not known."));
  v.field(text_field("health_path", variant.health_path, "Answers 200 once it serves."));
  v.field(text_field("metrics_path", variant.metrics_path, "Of its metrics."));
  v.field(duration_field("start_limit", variant.start_limit, seconds(1), kDay,
                         "From its start until it must serve; then it is stopped and reported."));
  v.field(duration_field("drain_limit", variant.drain_limit, Duration{0}, kDay,
                         "For requests under way after the gateway was told, before SIGTERM."));
  v.field(duration_field("stop_grace", variant.stop_grace, milliseconds(10), hours(1),
                         "From SIGTERM to SIGKILL."));
}

void visit_kubernetes(SchemaVisitor& v, KubernetesConfig& k) {
  v.field(text_field("kubeconfig", k.kubeconfig, "None: the pod's own service account."));
  v.field(text_list_field("namespaces", k.namespaces, "Where variants are looked for; none: all."));
  v.field(text_field("controller_instance", k.controller_instance,
                     "Only objects whose label wva.llmd.ai/controller-instance has this value; "
                     "gauges get it as a label."));
  v.section("lease", "Who leads, when several run.", [&] {
    LeaseSettings& lease = k.lease;
    v.field(flag_field("enabled", lease.enabled, "off: this one always leads."));
    v.field(text_field("name", lease.name, "Of the Lease object."));
    v.field(text_field("namespace", lease.ns, "Of the Lease object; none: our own."));
    v.field(duration_field("duration", lease.duration, seconds(1), hours(1),
                           "Without a renewal for so long, others may lead."));
    v.field(duration_field("renew", lease.renew, seconds(1), hours(1),
                           "A leader that could not renew for so long steps down."));
    v.field(
        duration_field("retry", lease.retry, milliseconds(100), hours(1), "Between two tries."));
  });
}

void visit_outputs(SchemaVisitor& v, Config& config) {
  v.section("metrics", "The listener for metrics, /healthz, /readyz and decisions.", [&] {
    v.field(flag_field("enabled", config.metrics.enabled, "Whether it is opened."));
    v.field(endpoint_field("listen", config.metrics.listen, "Its address."));
    v.field(flag_field("wva_names", config.metrics.wva_names,
                       "Whether gauges are also there under the names wva_*."));
  });
  v.section("keda", "The external scaler for KEDA (gRPC).", [&] {
    v.field(flag_field("enabled", config.keda.enabled, "Whether it is opened."));
    v.field(endpoint_field("listen", config.keda.listen, "Its address."));
  });
  v.section("processes", "The processes of one machine and the gateway before them.", [&] {
    ProcessesConfig& p = config.processes;
    v.field(optional_url_field("gateway", p.gateway,
                               "Admin listener of the gateway where replicas are registered; off: "
                               "nobody is told."));
    v.field(text_field("token_env", p.token_env, "Environment variable with its bearer token."));
    v.field(text_field("token_file", p.token_file, "File that holds it instead."));
    v.field(
        text_field("folder", p.folder,
                   "Where processes' output goes, a file for each; none: beside the database."));
  });
  v.section("decision_log", "One JSON line for each decision of each cycle.", [&] {
    DecisionLogConfig& d = config.decision_log;
    v.field(text_field("file", d.file, "Where; - is standard output; none: no log."));
    v.field(bytes_field("bytes_max", d.bytes_max, 64 * 1024, std::size_t{1} << 40,
                        "A file that has grown to this is put aside as FILE.1."));
    v.field(int_field("files_kept", d.files_kept, 0, 1000, "Of those put aside."));
  });
  v.section("history", "Cycles that `tailrace explain --decision` can look back to.", [&] {
    v.field(
        flag_field("enabled", config.history.enabled, "Whether they are kept, in the database."));
    v.field(duration_field("keep", config.history.keep, minutes(1), kDay * 366, "For how long."));
  });
}

void check_variant(const MachineVariant& variant, core::Problems& problems) {
  const auto say = [&](std::string_view key, const std::string& what) {
    problems.add(fmt::format("variants.{}.{}", variant.name, key), what);
  };
  if (!core::is_plain_name(variant.name, 63)) {
    problems.add("variants." + variant.name,
                 "is no name; use 1 to 63 letters, digits, dots, dashes or underscores");
  }
  if (variant.min > variant.max) {
    say("min", fmt::format("{} is more than max ({}); no number of replicas is both", variant.min,
                           variant.max));
  }
  if (variant.first_port > 0 && variant.first_port + variant.max - 1 > 65535) {
    say("first_port", fmt::format("{} leaves no port for {} replicas; the last one is 65535",
                                  variant.first_port, variant.max));
  }
  if (!variant.command.empty() &&
      std::none_of(
          variant.command.begin(), variant.command.end(),
          [](const std::string& part) { return part.find("{port}") != std::string::npos; }) &&
      variant.max > 1) {
    say("command", "has no {port}, so two replicas would listen on the same one; add it");
  }
  for (const auto& [key, path] : {std::pair{"health_path", &variant.health_path},
                                  std::pair{"metrics_path", &variant.metrics_path}}) {
    if (!path->starts_with('/')) say(key, core::quoted(*path) + " must begin with /");
  }
  for (std::size_t i = 0; i < variant.env.size(); ++i) {  // not shown: it may be a secret
    const std::string& pair = variant.env[i];
    if (pair.find('=') == std::string::npos || pair.starts_with('=')) {
      say(fmt::format("env[{}]", i), "its value is no NAME=value, such as OMP_NUM_THREADS=4");
    }
  }
}

void check_ports(const std::vector<MachineVariant>& variants, core::Problems& problems) {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const MachineVariant &a = variants[j], &b = variants[i];
      if (a.first_port < b.first_port + b.max && b.first_port < a.first_port + a.max) {
        problems.add(
            fmt::format("variants.{}.first_port", b.name),
            fmt::format("{} to {} meet the ports {} to {} of {}; move one of them", b.first_port,
                        b.first_port + b.max - 1, a.first_port, a.first_port + a.max - 1, a.name));
      }
    }
  }
}

void check_token(const std::string& section, const std::string& token_env,
                 const std::string& token_file, core::Problems& problems) {
  if (token_env.empty() || token_file.empty()) return;
  problems.add(section + ".token_file", "stands beside token_env; keep one of them");
}

}  // namespace

void visit_config(SchemaVisitor& v, Config& config) {
  v.field(choice_field(
      "platform", config.platform,
      {{"machine", Platform::kMachine}, {"kubernetes", Platform::kKubernetes}},
      "machine: the variants below are processes here. kubernetes: variants are found in the "
      "cluster."));
  v.field(duration_field("interval", config.interval, milliseconds(100), hours(1),
                         "From the beginning of a cycle to that of the next."));
  v.field(
      choice_field("source", config.source,
                   {{"scrape", SourceKind::kScrape}, {"prometheus", SourceKind::kPrometheus}},
                   "Where metrics come from: the exporters themselves, or a Prometheus server."));
  v.field(flag_field("scale", config.scale,
                     "Whether replicas are moved; off: gauges, KEDA and logs only."));
  v.field(duration_field("apply_timeout", config.apply_timeout, milliseconds(100), hours(1),
                         "A decision that is not carried out by then counts as unanswered, and the "
                         "next cycle decides from what is there."));
  v.field(text_field("database", config.database,
                     "SQLite file for orders under way, history and, unless a ConfigMap holds it, "
                     "what was learnt. Empty: in memory, so nothing outlives a restart."));
  v.section("settings", "SLOs and all that changes decisions; docs/capacity.md has the keys.",
            [&] { visit_settings(v, config.settings); });
  visit_metrics_source(v, config);
  v.map("variants", "Ways to serve models on this machine, by name; platform machine only.",
        [&](const std::string& name) {
          config.variants.emplace_back().name = name;
          visit_variant(v, config.variants.back());
        });
  v.section("kubernetes", "The cluster; platform kubernetes only.",
            [&] { visit_kubernetes(v, config.kubernetes); });
  visit_outputs(v, config);
  v.section("state", "What was learnt, and what keeps a restart from moving replicas.", [&] {
    v.field(text_field("config_map", config.state.config_map,
                       "Name of a ConfigMap that keeps it; none: the database does."));
    v.field(text_field("namespace", config.state.ns, "Of that map; none: our own."));
    v.field(duration_field("every", config.state.every, seconds(1), kDay,
                           "How often it is written, besides after each change of replicas and at "
                           "the end."));
  });
  v.section("logging", "What is logged, on standard error.", [&] {
    v.field(core::log_level_field(config.log_level));
    v.field(core::log_format_field(config.log_format));
  });
}

void check_together(const Config& config, core::Problems& problems) {
  const bool machine = config.platform == Platform::kMachine;
  if (machine && config.variants.empty()) {
    problems.add("variants", "has none; add one, or set platform: kubernetes");
  }
  if (!machine && !config.variants.empty()) {
    problems.add("variants", "are those of one machine; leave them out with platform: kubernetes");
  }
  for (const MachineVariant& variant : config.variants) check_variant(variant, problems);
  check_ports(config.variants, problems);
  if (!config.settings.file.empty() && !config.settings.config_map.empty()) {
    problems.add("settings.config_map", "stands beside settings.file; keep one of them");
  }
  if (machine && !config.settings.config_map.empty()) {
    problems.add("settings.config_map", "needs platform: kubernetes; name a file instead");
  }
  if (machine && !config.state.config_map.empty()) {
    problems.add("state.config_map", "needs platform: kubernetes; the database keeps it here");
  }
  check_token("prometheus", config.prometheus.token_env, config.prometheus.token_file, problems);
  check_token("processes", config.processes.token_env, config.processes.token_file, problems);
  const LeaseSettings& lease = config.kubernetes.lease;
  if (!(lease.duration > lease.renew && lease.renew > lease.retry)) {
    problems.add("kubernetes.lease.renew",
                 fmt::format("{} is not between retry ({}) and duration ({})",
                             core::print_duration(lease.renew), core::print_duration(lease.retry),
                             core::print_duration(lease.duration)));
  }
  if (config.unavailable_after < config.stale_after) {
    problems.add("observe.unavailable_after",
                 fmt::format("{} is less than stale_after ({})",
                             core::print_duration(config.unavailable_after),
                             core::print_duration(config.stale_after)));
  }
  if (config.metrics.enabled && config.keda.enabled && config.metrics.listen.port != 0 &&
      config.metrics.listen == config.keda.listen) {
    problems.add("keda.listen", "is the address of metrics.listen too; choose another port");
  }
}

}  // namespace tailrace::autoscaler
