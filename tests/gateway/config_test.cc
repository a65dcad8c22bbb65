#include "tailrace/gateway/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "gateway/config_schema.h"
#include "support/temp_folder.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kSmallest = R"(backends:
  - name: gpu0
    url: http://127.0.0.1:8000
    models: [my-model]
    slots: 32
)";

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

Config good(std::string_view text, const Environment& env = no_environment()) {
  auto config = parse_config(text, "t.yaml", env);
  EXPECT_TRUE(config) << (config ? "" : config.error().message);
  return config.value_or(Config{});
}

std::string errors(std::string_view text, const Environment& env = no_environment()) {
  const auto config = parse_config(text, "t.yaml", env);
  EXPECT_FALSE(config) << text;
  if (config) return "";
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
  return config.error().message;
}

std::string with(std::string_view more) {
  return std::string(kSmallest) + std::string(more);
}

TEST(Config, MoreModelsThanHaveSeriesCannotBeAwaited) {
  std::string models = "backends: []\nmodels:\n";
  for (int i = 0; i < 1000; ++i) models += fmt::format("  m{}: {{awaited: true}}\n", i);
  models += "  plain: {default_cap: 7}\n";
  good(models);
  EXPECT_THAT(errors(models + "  one: {awaited: true}\n"),
              HasSubstr("models: 1001 of them are awaited; at most 1000 can be"));
}

TEST(Config, SlotsOfWhatIsToComeAreSaidOfAnAwaitedModelOnly) {
  good("backends: []\nmodels: {one: {slots: 4, awaited: true}}\n");
  EXPECT_THAT(errors("models: {one: {slots: 4}}\n"), HasSubstr("models.one.slots"));
}

TEST(Config, AModelHasAName) {
  EXPECT_THAT(errors("models: {'': {awaited: true}}\n"),
              HasSubstr("models: an entry has an empty name; name the model"));
}

TEST(Config, TheSmallestFileGetsDefaults) {
  const Config config = good(kSmallest);
  EXPECT_EQ(net::to_string(config.listen), "127.0.0.1:8080");
  EXPECT_EQ(net::to_string(config.admin.listen), "127.0.0.1:9090");
  ASSERT_EQ(config.backends.size(), 1u);
  EXPECT_EQ(config.backends[0].name, "gpu0");
  EXPECT_EQ(config.backends[0].url.endpoint.port, 8000);
  EXPECT_EQ(config.backends[0].models, std::vector<std::string>{"my-model"});
  EXPECT_EQ(config.backends[0].slots, 32);
  EXPECT_EQ(config.backends[0].health_path, "/health");
  EXPECT_EQ(config.dispatch.policy, "tie");
  EXPECT_EQ(config.dispatch.waiting_bound, std::chrono::seconds(60));
  EXPECT_EQ(config.body_bytes_max, 32u << 20);
  EXPECT_EQ(config.predict.mode, PredictMode::kOn);
  EXPECT_FALSE(config.predict.accept_given_laws);
}

TEST(Config, EveryKindOfValueIsRead) {
  const Config config = good(with(R"(
listen: "[::1]:80"
models:
  my-model: {context_length: 8192, default_cap: 100}
schedule: {policy: fcfs, waiting_bound: off, queued_bytes_max: 64MiB, fixed_beta: 0.3, decay_period: 1.5s}
predict: {mode: shadow, batch_wait: 500us, save_every: 2m, learn_from_estimates: true}
limits: {body_bytes_max: 1000kB}
logging: {level: debug, format: json}
)"));
  EXPECT_EQ(config.listen.host, "::1");
  EXPECT_EQ(config.model("my-model").context_length, Tokens{8192});
  EXPECT_EQ(config.model("my-model").default_cap, Tokens{100});
  EXPECT_FALSE(config.model("another").context_length);
  EXPECT_EQ(config.dispatch.policy, "fcfs");
  EXPECT_FALSE(config.dispatch.waiting_bound);
  EXPECT_EQ(config.dispatch.queued_bytes_max, 64u << 20);
  EXPECT_EQ(config.dispatch.policy_options.fixed_beta, 0.3);
  EXPECT_EQ(config.dispatch.policy_options.decay_period, std::chrono::milliseconds(1500));
  EXPECT_EQ(config.predict.mode, PredictMode::kShadow);
  EXPECT_EQ(config.predict.batcher.wait_max, std::chrono::microseconds(500));
  EXPECT_EQ(config.predict.save_every, std::chrono::minutes(2));
  EXPECT_TRUE(config.predict.learn_from_estimates);
  EXPECT_EQ(config.body_bytes_max, 1'000'000u);
  EXPECT_EQ(config.logging.format, log::Format::kJson);
}

TEST(Config, JsonIsAConfigurationToo) {
  const Config config =
      good(R"({"listen": "127.0.0.1:0", "backends": [{"name": "a", "url": "http://h:1/v9",
    "models": ["m"], "slots": 1}], "schedule": {"queued_jobs_max": 1}, "predict": {"mode": "off"}})");
  EXPECT_EQ(config.backends[0].url.prefix, "/v9");
  EXPECT_EQ(config.dispatch.queued_jobs_max, 1u);
  EXPECT_EQ(config.predict.mode, PredictMode::kOff);
}

TEST(Config, AnErrorNamesPathLineValueAndRemedy) {
  EXPECT_EQ(errors(R"(backends:
  - {name: a, url: "http://h:1", models: [m], slots: 1}
  - name: b
    url: http://h:2
    models: [m]
    slots: many
)"),
            "t.yaml:6: backends[1].slots: \"many\" is not a whole number from 1 to 100000");
}

TEST(Config, AnErrorSteersNoTerminalWhateverNamesSay) {
  const std::string name = "models: {\"m\\x1b[31m\": {default_cap: x}}\n";
  EXPECT_THAT(errors(with(name)), HasSubstr("models.m\\x1b[31m.default_cap: \"x\" is not"));
  const auto config = parse_config("x: 1\n", "a\x1b[2J.yaml", no_environment());
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("a\\x1b[2J.yaml:1: x: unknown key"));
  EXPECT_THAT(config.error().message, Not(HasSubstr("\x1b")));
}

TEST(Config, EveryErrorIsReported) {
  const std::string all = errors(R"(
listen: nowhere
backends:
  - name: a
    url: ftp://x
    slots: 0
schedule: {policy: tei, waiting_bound: 60, decay: 7}
predict: {mode: yes, batch_max: 0}
limits: {body_bytes_max: 32XB}
)");
  EXPECT_THAT(all, HasSubstr("t.yaml:2: listen: \"nowhere\" is not host:port"));
  EXPECT_THAT(all, HasSubstr("t.yaml:5: backends[0].url: \"ftp://x\" is not a URL"));
  EXPECT_THAT(all, HasSubstr("t.yaml:4: backends[0].models: is missing; add \"models:\""));
  EXPECT_THAT(all, HasSubstr("t.yaml:6: backends[0].slots: \"0\" is not a whole number from 1"));
  EXPECT_THAT(all, HasSubstr("t.yaml:7: schedule.policy: \"tei\" is unknown; use fcfs, "));
  EXPECT_THAT(
      all,
      HasSubstr("schedule.waiting_bound: \"60\" is not a duration; write a number and a unit"));
  EXPECT_THAT(all, HasSubstr("schedule.decay: \"7\" is not a number from 0.01 to 1"));
  EXPECT_THAT(all, HasSubstr("predict.mode: \"yes\" is unknown; use off, shadow, on"));
  EXPECT_THAT(all, HasSubstr("predict.batch_max: \"0\""));
  EXPECT_THAT(all, HasSubstr("limits.body_bytes_max: \"32XB\" is not a size"));
}

TEST(Config, AnUnknownKeyGetsASuggestion) {
  EXPECT_EQ(errors(with("schedul: {policy: tie}\n")),
            "t.yaml:6: schedul: unknown key \"schedul\"; did you mean \"schedule\"?");
  EXPECT_THAT(errors(with("schedule: {polcy: tie}\n")),
              HasSubstr("schedule.polcy: unknown key \"polcy\"; did you mean \"policy\"?"));
  EXPECT_THAT(errors(with("entirely_different: 1\n")), HasSubstr("known here: listen, admin"));
}

TEST(Config, WrongShapesAreErrors) {
  EXPECT_THAT(errors("[]"), HasSubstr("must be a mapping"));
  EXPECT_THAT(errors("just text"), HasSubstr("must be a mapping"));
  EXPECT_THAT(errors(""), HasSubstr("backends: is missing"));
  EXPECT_THAT(errors("backends: {}"), HasSubstr("must be a list"));
  EXPECT_THAT(errors("backends: [1]"), HasSubstr("backends[0]: must be a mapping"));
  EXPECT_THAT(errors(with("listen: [a]\n")),
              HasSubstr("listen: must be a single value: host:port"));
  EXPECT_THAT(errors(with("listen:\n")), HasSubstr("listen: has no value"));
  EXPECT_THAT(errors(with("models: [a]\n")), HasSubstr("models: must be a mapping"));
  EXPECT_THAT(errors(with("health: 5\n")), HasSubstr("health: must be a mapping"));
  EXPECT_THAT(errors("backends: [{name: a, url: 'http://h', models: [], slots: 1}]"),
              HasSubstr("backends[0].models: is empty"));
  EXPECT_THAT(errors("backends: [{name: a, url: 'http://h', models: [x, x], slots: 1}]"),
              HasSubstr("backends[0].models[1]: \"x\" stands in the list twice"));
  EXPECT_THAT(errors("backends: [{name: a, url: 'http://h', models: [{}], slots: 1}]"),
              HasSubstr("backends[0].models[0]: must be a single text"));
}

TEST(Config, AnEmptySectionIsASectionOfDefaults) {
  good(with("health:\nmodels:\n"));
}

TEST(Config, NoBackendsMustBeSaidOnPurpose) {
  EXPECT_TRUE(good("backends: []").backends.empty());
}

TEST(Config, YamlThatCannotBeReadNamesItsLine) {
  EXPECT_THAT(errors("a: b\n c: d: e\n"), HasSubstr("t.yaml:2: not valid YAML"));
  EXPECT_THAT(errors("listen: a\nlisten: b\n"),
              HasSubstr("t.yaml:2: key \"listen\" stands twice, first on line 1"));
  EXPECT_THAT(errors(with("---\nlisten: a\n")), HasSubstr("second document"));
  EXPECT_THAT(errors("? [a]\n: b\n"), HasSubstr("key must be plain text"));
}

TEST(Config, BombsAreRefused) {
  EXPECT_THAT(errors("a: &x [1,1]\nb: &y [*x,*x]\n"),
              HasSubstr("anchors and aliases are not supported"));
  EXPECT_THAT(errors("a: " + std::string(2000, '[') + std::string(2000, ']')),
              HasSubstr("nested deeper than"));
  std::string many = "a: [";
  for (int i = 0; i < 150'000; ++i) many += "1,";
  EXPECT_THAT(errors(many + "1]"), HasSubstr("more than 100000 values"));
  std::string keys;
  for (int i = 0; i < 20'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(errors(keys), HasSubstr("more than 10000 keys"));
  EXPECT_THAT(errors(std::string(kConfigBytesMax + 1, '#')), HasSubstr("longer than"));
}

TEST(Config, ManyErrorsAreCutAndCounted) {
  std::string text(kSmallest);
  for (int i = 0; i < 200; ++i) text += "unknown_" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(errors(text), HasSubstr("… and 150 more"));
}

TEST(Config, KeysThatContradictEachOther) {
  EXPECT_THAT(
      errors(std::string(kSmallest) + "  - {name: gpu0, url: 'http://h', models: [m], slots: 1}\n"),
      HasSubstr("backends[1].name: \"gpu0\" is the name of another backend"));
  EXPECT_THAT(errors("backends: [{name: 'a/b', url: 'http://h', models: [m], slots: 1}]"),
              HasSubstr("backends[0].name: \"a/b\" must be"));
  EXPECT_THAT(
      errors("backends: [{name: a, url: 'http://h', models: [m], slots: 1, health_path: up}]"),
      HasSubstr("backends[0].health_path: \"up\" must begin with /"));
  EXPECT_THAT(errors("backends: [{name: a, url: 'http://h', models: [m], slots: 1, api_key_env: A, "
                     "api_key_file: B}]"),
              HasSubstr("keep one of them"));
  EXPECT_THAT(errors(with("admin: {listen: '0.0.0.0:9090'}\n")),
              HasSubstr("admin.listen: \"0.0.0.0:9090\" can be reached"));
  EXPECT_THAT(errors(with("admin: {listen: '127.example.org:9090'}\n")),
              HasSubstr("can be reached"));
  good(with("admin: {listen: '127.0.0.2:9090'}\n"));
  EXPECT_THAT(errors(with("admin: {listen: '127.0.0.1:8080'}\n")),
              HasSubstr("choose another port"));
  EXPECT_THAT(errors(with("schedule: {queued_bytes_max: 1MiB}\n")),
              HasSubstr("such a body could never wait"));
  EXPECT_THAT(errors(with("schedule: {beta_min: 2}\n")), HasSubstr("more than schedule.beta_max"));
}

TEST(Config, TheEnvironmentOverridesTheFile) {
  const Config config = good(with("schedule: {policy: fcfs}\n"),
                             environment({{"TAILRACE_LISTEN", "0.0.0.0:81"},
                                          {"TAILRACE_SCHEDULE_POLICY", "tie"},
                                          {"TAILRACE_PREDICT_MODE", "off"},
                                          {"TAILRACE_SCHEDULE_WAITING_BOUND", "5s"}}));
  EXPECT_EQ(config.listen.port, 81);
  EXPECT_EQ(config.dispatch.policy, "tie");
  EXPECT_EQ(config.predict.mode, PredictMode::kOff);
  EXPECT_EQ(config.dispatch.waiting_bound, std::chrono::seconds(5));
  EXPECT_EQ(errors(kSmallest, environment({{"TAILRACE_PREDICT_BATCH_MAX", "x"}})),
            "environment variable TAILRACE_PREDICT_BATCH_MAX: \"x\" is not a whole number from 1 "
            "to 4096");
}

TEST(Config, AMisspeltOverrideIsNamed) {
  Config config;
  config.admin.token_env = "TAILRACE_LISTEM";
  const auto doubts = doubtful_overrides(
      config, {"TAILRACE_SCHEDULE_POLICI", "TAILRACE_SCHEDULE_POLICY", "TAILRACE_LISTEM", "PATH",
               "TAILRACE_GPU0_KEY", "TAILRACE_" + std::string(1 << 20, 'X')});
  ASSERT_EQ(doubts.size(), 1U);
  EXPECT_NE(doubts[0].find(
                "TAILRACE_SCHEDULE_POLICI sets nothing; did you mean TAILRACE_SCHEDULE_POLICY?"),
            std::string::npos);
}

TEST(Config, SecretsComeFromTheEnvironmentOrAFileAndNotFromTheConfiguration) {
  const TempFile file("sk-from-file\n");
  auto config = parse_config(
      "backends:\n- {name: a, url: 'http://h', models: [m], slots: 1, api_key_env: KEY}\n"
      "- {name: b, url: 'http://h', models: [m], slots: 1, api_key_file: " +
          file.path() + "}\nadmin: {token_env: TOKEN}\n",
      "t.yaml");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(read_secrets(*config, environment({{"KEY", " sk-1 "}, {"TOKEN", "t"}})));
  EXPECT_EQ(config->backends[0].api_key.reveal(), "sk-1");
  EXPECT_EQ(config->backends[1].api_key.reveal(), "sk-from-file");
  EXPECT_EQ(config->admin.token.reveal(), "t");
  EXPECT_THAT(summarize(*config), Not(HasSubstr("sk-")));
  EXPECT_THAT(summarize_json(*config), Not(HasSubstr("sk-")));
}

TEST(Config, ASecretThatIsMissingOrBadIsNamedButNotShown) {
  auto config = parse_config(
      "backends: [{name: a, url: 'http://h', models: [m], slots: 1, api_key_env: KEY}]", "t.yaml");
  ASSERT_TRUE(config);
  auto missing = read_secrets(*config, no_environment());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message,
            "backends[0].api_key_env: environment variable \"KEY\" is not set");
  auto bad = read_secrets(*config, environment({{"KEY", "sk\r\nx-evil: 1"}}));
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, Not(HasSubstr("sk")));
}

TEST(Config, AUrlWithAPasswordIsRefusedAndNotShown) {
  const auto message =
      errors("backends: [{name: a, url: 'http://me:hunter2@h', models: [m], slots: 1}]");
  EXPECT_THAT(message, HasSubstr("backends[0].url"));
  EXPECT_THAT(message, HasSubstr("give keys apart"));
  EXPECT_THAT(message, Not(HasSubstr("hunter2")));
}

TEST(Config, AFileIsLoaded) {
  const TempFile file(kSmallest);
  EXPECT_TRUE(load_config(file.path(), no_environment()));
  for (const char* file_name : {"/no/such/folder/model", "/"}) {
    const TempFile file_of_model(with("predict: {model_file: '") + file_name + "'}\n");
    const auto unusable = load_config(file_of_model.path(), no_environment());
    ASSERT_FALSE(unusable) << file_name;
    EXPECT_THAT(unusable.error().message, HasSubstr("predict.model_file"));
  }
  const auto missing = load_config("no/such/file.yaml", no_environment());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(Config, ABackendIsReadFromJson) {
  const auto backend = parse_backend(
      "gpu1", R"({"url": "https://h/v1", "models": ["m", "n"], "slots": 4})", no_environment());
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_EQ(backend->name, "gpu1");
  EXPECT_TRUE(backend->url.endpoint.tls);
  EXPECT_EQ(backend->slots, 4);
  const auto message = [](std::string_view json) {
    const auto parsed = parse_backend("gpu1", json, no_environment());
    EXPECT_FALSE(parsed);
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_THAT(message(R"({"url": "https://h", "models": ["m"]})"), HasSubstr("slots: is missing"));
  EXPECT_THAT(message(R"({"name": "other", "url": "https://h", "models": ["m"], "slots": 1})"),
              HasSubstr("not the name in the path"));
  EXPECT_THAT(message("{"), HasSubstr("body"));
  EXPECT_THAT(message("[]"), HasSubstr("must be a mapping"));
  EXPECT_THAT(
      message(R"({"url": "https://h", "models": ["m"], "slots": 1, "api_key_env": "NOT_SET"})"),
      HasSubstr("api_key_env"));
}

/// Collects every key of the schema.
class KeyLister final : public SchemaVisitor {
 public:
  std::set<std::string> keys;
  void field(Field field) override {
    EXPECT_FALSE(field.help.empty()) << field.name << " is undocumented";
    EXPECT_TRUE(field.help.ends_with('.') || field.help.ends_with(')')) << field.name;
    keys.insert(field.name);
  }
  void section(std::string_view name, std::string_view,
               const std::function<void()>& body) override {
    keys.insert(std::string(name));
    body();
  }
  void list(std::string_view name, std::string_view,
            const std::function<void()>& element) override {
    keys.insert(std::string(name));
    element();
  }
  void map(std::string_view name, std::string_view,
           const std::function<void(const std::string&)>& element) override {
    keys.insert(std::string(name));
    element("x");
  }
};

std::string source_file(const std::string& name) {
  auto text = core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/" + name, 1 << 20);
  EXPECT_TRUE(text) << name;
  return text.value_or("");
}

/// Does a line of the text set the key, commented out or not?
bool shows_key(std::string_view text, std::string_view key) {
  for (const auto line : core::split(text, '\n')) {
    const std::size_t begin = line.find_first_not_of(" #-{");
    if (begin != std::string_view::npos && line.substr(begin).starts_with(std::string(key) + ":")) {
      return true;
    }
  }
  return false;
}

TEST(ConfigReference, ThePageIsUpToDate) {
  EXPECT_EQ(source_file("docs/configuration.md"), configuration_reference())
      << "run: tailrace check --reference > docs/configuration.md";
}

TEST(ConfigReference, TheExampleShowsEveryKeyAndIsGood) {
  const std::string example = source_file("examples/tailrace.yaml");
  Config config;
  KeyLister lister;
  visit_config(lister, config);
  EXPECT_GE(lister.keys.size(), 70u);
  for (const auto& key : lister.keys) {
    EXPECT_TRUE(shows_key(example, key)) << key << " is not in the example";
  }
  good(example);
}

TEST(ConfigReference, WhatTheExampleCommentsOutAreValidSettings) {
  std::string example = source_file("examples/tailrace.yaml");
  std::string uncommented;
  for (const auto line : core::split(example, '\n')) {
    std::string text(line);
    const auto mark = text.find("  # ");
    const auto colon = text.find(": ", mark == std::string::npos ? 0 : mark);
    const bool is_setting = mark != std::string::npos && core::trim(text.substr(0, mark)).empty() &&
                            colon != std::string::npos &&
                            text.substr(mark + 4, colon - mark - 4).find(' ') == std::string::npos;
    if (is_setting) text.erase(mark + 2, 2);
    uncommented += text + "\n";
  }
  // Of two alternatives the example shows both; a file may have one.
  for (const std::string line : {"token_file:", "api_key_file:"}) {
    const auto at = uncommented.find("  " + line);
    ASSERT_NE(at, std::string::npos);
    uncommented.insert(at, "#");
  }
  EXPECT_GT(uncommented.size() - core::split(example, '\n').size(), 1000u);
  const Config config = good(uncommented);
  EXPECT_EQ(config.admin.token_env, "TAILRACE_ADMIN_TOKEN");
  EXPECT_EQ(config.predict.options.table_bits, Config{}.predict.options.table_bits);
  EXPECT_EQ(config.dispatch.queued_bytes_max, Config{}.dispatch.queued_bytes_max);
  EXPECT_EQ(config.server.write_timeout, Config{}.server.write_timeout);
}

}  // namespace
}  // namespace tailrace::gateway
