#include "tailrace/autoscaler/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

constexpr const char* kMachine = R"(
interval: 5s
settings:
  file: slo.yaml
processes:
  gateway: http://127.0.0.1:9090
  token_env: GATEWAY_TOKEN
variants:
  fast:
    model: llama
    accelerator: H100
    cost: 40
    min: 1
    max: 4
    command: [tailrace, engine, --port, "{port}", --seed, "1", --speed, "1"]
    env: [A=1]
    first_port: 9100
    slots: 64
  slow:
    model: llama
    command: [tailrace, engine, --port, "{port}"]
    first_port: 9104
)";

std::string errors_of(const std::string& text) {
  const auto config = parse_config(text, "a.yaml");
  return config ? "" : config.error().message;
}

/// kMachine with one text replaced.
std::string with(const std::string& old_text, const std::string& new_text) {
  std::string text = kMachine;
  const auto at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  if (at != std::string::npos) text.replace(at, old_text.size(), new_text);
  return text;
}

TEST(AutoscalerConfig, OneMachineIsVariantsWithCommandsAndPorts) {
  const auto config = parse_config(kMachine, "a.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->interval, std::chrono::seconds(5));
  ASSERT_EQ(config->variants.size(), 2u);
  EXPECT_EQ(config->variants[0].name, "fast");
  EXPECT_EQ(config->variants[0].max, 4);
  EXPECT_EQ(config->variants[0].command.size(), 8u);  // the same word twice is kept
  EXPECT_EQ(config->variants[1].ns, "default");
  EXPECT_EQ(config->variants[1].max, 1);
  ASSERT_TRUE(config->processes.gateway);
  EXPECT_EQ(config->processes.gateway->endpoint.port, 9090);
}

TEST(AutoscalerConfig, AVariableOverridesAKeyOfASection) {
  const core::Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "TAILRACE_AUTOSCALER_INTERVAL") return "2s";
    if (name == "TAILRACE_AUTOSCALER_PROMETHEUS_URL") return "http://p:1234/x";
    if (name == "TAILRACE_AUTOSCALER_KUBERNETES_NAMESPACES") return "llm, chat";
    return std::nullopt;
  };
  const auto config = parse_config("platform: kubernetes\n", "a.yaml", environment);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->interval, std::chrono::seconds(2));
  EXPECT_EQ(config->prometheus.url.endpoint.host, "p");
  EXPECT_EQ(config->kubernetes.namespaces, (std::vector<std::string>{"llm", "chat"}));
}

struct Wrong {
  const char *name, *old_text, *new_text, *says;
};

class WrongConfig : public testing::TestWithParam<Wrong> {};

TEST_P(WrongConfig, IsRefusedWithPlaceAndRemedy) {
  const Wrong& wrong = GetParam();
  EXPECT_THAT(errors_of(with(wrong.old_text, wrong.new_text)), testing::HasSubstr(wrong.says));
}

INSTANTIATE_TEST_SUITE_P(
    AutoscalerConfig, WrongConfig,
    testing::Values(
        // kedacore/keda#5288: min above max makes two writers flip the replicas for ever.
        Wrong{"MinAboveMax", "min: 1", "min: 5", "variants.fast.min: 5 is more than max (4)"},
        Wrong{"PortsMeet", "first_port: 9104", "first_port: 9103",
              "variants.slow.first_port: 9103 to 9103 meet the ports 9100 to 9103 of fast"},
        Wrong{"PortsEnd", "first_port: 9100", "first_port: 65533", "leaves no port"},
        Wrong{"NoPortInTheCommand", "\"{port}\", --seed", "\"80\", --seed", "has no {port}"},
        Wrong{"NoModel", "    model: llama\n    accelerator", "    accelerator",
              "variants.fast.model: is missing"},
        Wrong{"BadEnv", "env: [A=1]", "env: [A]", "is no NAME=value"},
        Wrong{"Misspelt", "interval: 5s", "intervall: 5s", "intervall"},
        Wrong{"NoDuration", "interval: 5s", "interval: 5", "interval: \"5\""},
        Wrong{"TwoSettings", "file: slo.yaml", "file: slo.yaml\n  config_map: x",
              "settings.config_map: stands beside settings.file"},
        Wrong{"MapOnAMachine", "file: slo.yaml", "config_map: x", "needs platform: kubernetes"},
        Wrong{"TwoTokens", "token_env: GATEWAY_TOKEN", "token_env: GATEWAY_TOKEN\n  token_file: /t",
              "processes.token_file: stands beside"},
        Wrong{"StaleAfterGone", "interval: 5s", "observe: {stale_after: 10m}",
              "observe.unavailable_after"},
        Wrong{"VariantsInACluster", "interval: 5s", "platform: kubernetes",
              "variants: are those of one machine"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(AutoscalerConfig, AnErrorShowsNothingThatMayBeAKey) {
  using testing::HasSubstr, testing::Not;
  const auto hidden = [](const std::string& errors, const char* says) {
    EXPECT_THAT(errors, HasSubstr(says));
    EXPECT_THAT(errors, Not(HasSubstr("hunter2")));
  };
  hidden(errors_of(with("env: [A=1]", "env: [A=1, KEY hunter2]")),
         "variants.fast.env[1]: its value is no NAME=value");
  hidden(errors_of(with("env: [A=1]", "env: [A=hunter2, A=hunter2]")),
         "variants.fast.env[1]: its value stands in the list twice");
  hidden(errors_of(with("interval: 5s", "prometheus: {headers: [\"X: hunter2\\e\"]}")),
         "prometheus.headers[0]: its value has a control character");
  for (const char* url : {"http://u:hunter2@p", "u:hunter2@p:9090", "ftp://u:hunter2@p/x"}) {
    hidden(errors_of(with("interval: 5s", fmt::format("prometheus: {{url: \"{}\"}}", url))),
           "a user or a password in a URL is not supported");
    const auto config = parse_config(kMachine, "a.yaml", [&](const std::string& name) {
      return name == "TAILRACE_AUTOSCALER_PROMETHEUS_URL" ? std::optional<std::string>(url)
                                                          : std::nullopt;
    });
    ASSERT_FALSE(config) << url;
    hidden(config.error().message, "environment variable TAILRACE_AUTOSCALER_PROMETHEUS_URL: ");
  }
  const auto query =
      errors_of(with("interval: 5s", "prometheus: {url: \"http://h/?token=hunter2\"}"));
  hidden(query, "prometheus.url: ");
  hidden(query, "http://h/");
}

TEST(AutoscalerConfig, ALeaseMustBeRenewedBeforeItEnds) {
  EXPECT_THAT(errors_of("platform: kubernetes\nkubernetes: {lease: {renew: 20s}}\n"),
              testing::HasSubstr("kubernetes.lease.renew: 20s is not between"));
}

TEST(AutoscalerConfig, AMachineWithoutVariantsHasNothingToScale) {
  EXPECT_THAT(errors_of("interval: 5s\n"), testing::HasSubstr("variants: has none"));
}

TEST(AutoscalerConfig, ATokenThatIsNotThereIsNamed) {
  auto config = parse_config(kMachine, "a.yaml");
  ASSERT_TRUE(config);
  const auto read = read_secrets(*config, core::no_environment());
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, testing::HasSubstr("processes.token_env"));
  EXPECT_THAT(read.error().message, testing::HasSubstr("GATEWAY_TOKEN"));
}

TEST(AutoscalerConfig, ItsFileIsToldFromAGateways) {
  EXPECT_TRUE(looks_like_autoscaler(kMachine));
  EXPECT_TRUE(looks_like_autoscaler("platform: kubernetes\n"));
  EXPECT_FALSE(
      looks_like_autoscaler("listen: 127.0.0.1:1\nbackends: []\nlogging: {level: info}\n"));
  EXPECT_FALSE(looks_like_autoscaler("{"));
}

TEST(AutoscalerConfig, TheReferencePageIsUpToDate) {
  const auto page = core::read_file(
      std::string(TAILRACE_SOURCE_DIR) + "/docs/autoscaler-configuration.md", 1 << 20);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(*page, configuration_reference())
      << "run: tailrace check --reference-autoscaler > docs/autoscaler-configuration.md";
}

}  // namespace
}  // namespace tailrace::autoscaler
