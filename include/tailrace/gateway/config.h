// What does the operator want of the gateway?
//
// One typed structure, filled from YAML and then from the environment. Every key is declared once,
// in config_schema.cc, with its unit, range, default and effect; reading, checking, the reference
// page (docs/configuration.md) and the environment's names come from that declaration. A bad file
// is one Error that lists everything wrong with it: the path ("backends[1].slots"), the line, the
// value and the remedy. Secrets are named here and read separately, so that a file can be checked
// without them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/log.h"
#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"
#include "tailrace/dispatch/dispatcher.h"
#include "tailrace/net/http_server.h"
#include "tailrace/net/stream.h"
#include "tailrace/predict/batcher.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::gateway {

/// A key or token. It has no stream operator and no conversion, so that it cannot reach a log by
/// accident.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  const std::string& reveal() const { return value_; }
  bool empty() const { return value_.empty(); }

 private:
  std::string value_;
};

/// Do we ask engines for usage on streams whose client did not (design, rule 7)?
enum class UsageRequest { kAuto, kOff };

struct BackendConfig {
  std::string name;
  net::Url url;
  std::vector<std::string> models;
  int slots = 0;            ///< required
  std::string api_key_env;  ///< name of an environment variable
  std::string api_key_file;
  std::string health_path = "/health";  ///< without the URL's prefix
  UsageRequest usage = UsageRequest::kAuto;
  Secret api_key;  ///< filled by read_secrets
};

struct AdminConfig {
  bool enabled = true;
  net::Endpoint listen{"127.0.0.1", 9090, false};
  std::string token_env;
  std::string token_file;
  Secret token;  ///< filled by read_secrets; empty: no token is asked for (loopback only)
};

/// What a model can hold, where requests do not say.
struct ModelConfig {
  std::optional<Tokens> context_length;
  std::optional<Tokens> default_cap;
  bool awaited = false;  ///< its requests wait although no backend serves it (yet)
  int slots = 0;         ///< of the largest backend that may come, if awaited; 0: not known
};

struct TimeoutsConfig {
  Duration connect = std::chrono::seconds(5);
  Duration first_byte{0};  ///< 0: none
  Duration idle{0};        ///< between two reads of an answer; 0: none
  Duration queue{0};       ///< a job that waited so long is answered with 503; 0: none
};

struct HealthConfig {
  bool enabled = true;
  Duration interval = std::chrono::seconds(2);
  Duration timeout = std::chrono::seconds(2);
  int unhealthy_after = 3;  ///< failed probes in a row
  int healthy_after = 1;    ///< good probes in a row
};

enum class PredictMode { kOff, kShadow, kOn };
enum class PredictorKind { kOnline, kPrior };

struct PredictConfig {
  PredictMode mode = PredictMode::kOn;
  PredictorKind predictor = PredictorKind::kOnline;
  bool accept_given_laws = false;  ///< header x-tailrace-length-law
  bool learn_from_estimates =
      false;               ///< where an engine reports no usage, learn from counted events
  std::string model_file;  ///< empty: what is learned lives in memory only
  Duration save_every = std::chrono::seconds(60);
  Tokens default_cap{4096};  ///< where neither the request nor the model's context says more
  predict::BatcherOptions batcher;
  predict::PredictorOptions options;
};

struct DrainConfig {
  Duration limit = std::chrono::seconds(180);  ///< streams that run longer are cut
  Duration notice =
      std::chrono::seconds(0);  ///< not ready, but still accepting, before the drain begins
};

struct LoggingConfig {
  log::Level level = log::Level::kInfo;
  log::Format format = log::Format::kLogfmt;
  bool requests = true;  ///< one line per finished request
};

struct Config {
  net::Endpoint listen{"127.0.0.1", 8080, false};
  AdminConfig admin;
  std::vector<BackendConfig> backends;
  std::map<std::string, ModelConfig> models;
  dispatch::DispatchConfig dispatch;
  net::ServerLimits server;
  std::size_t body_bytes_max = std::size_t{32} << 20;
  std::size_t inline_body_bytes_max = std::size_t{256}
                                      << 10;  ///< larger bodies are read on another thread
  TimeoutsConfig timeouts;
  HealthConfig health;
  PredictConfig predict;
  DrainConfig drain;
  LoggingConfig logging;

  /// The limits of a model, empty ones for a model without an entry.
  ModelConfig model(std::string_view name) const;
};

/// Looks a name up in the environment. An argument, so that tests have their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();
Environment no_environment();

/// Says of each name that is one typing error away from an override that it sets nothing. A warning
/// and no error: keys and tokens may live under any name.
std::vector<std::string> doubtful_overrides(const Config& config,
                                            const std::vector<std::string>& names);
/// The names of this process's environment.
std::vector<std::string> process_environment_names();

inline constexpr std::size_t kConfigBytesMax = std::size_t{1} << 20;

/// Reads YAML text; `origin` names it in errors ("tailrace.yaml"). Environment variables
/// (TAILRACE_LISTEN, …: docs/configuration.md) override scalar keys. No secret is read.
/// Errors: kInvalidArgument, one line per problem.
Result<Config> parse_config(std::string_view text, std::string_view origin,
                            const Environment& environment = no_environment());

/// Reads the keys and tokens that `config` names. Errors: kInvalidArgument with the path of the
/// key.
Result<void> read_secrets(Config& config, const Environment& environment);

/// parse_config of a file, then read_secrets. Errors: also kNotFound and kResourceExhausted (over 1
/// MiB).
Result<Config> load_config(const std::string& path,
                           const Environment& environment = process_environment());

/// "http://engine:8000 (2 models, 16 slots)" and so on, one line per thing that matters; no
/// secrets.
std::string summarize(const Config& config);
/// The same as one JSON object.
std::string summarize_json(const Config& config);

/// The reference page, generated from the schema.
std::string configuration_reference();

/// Reads one backend from JSON text, as `PUT /tailrace/v1/backends/{name}` sends it: the keys of an
/// entry of `backends` except `name`. Its secret is read too, unless `may_name_secrets` is false:
/// then naming one is an error and nothing is read. Errors: as parse_config.
Result<BackendConfig> parse_backend(std::string_view name, std::string_view json,
                                    const Environment& environment, bool may_name_secrets = true);

}  // namespace tailrace::gateway
