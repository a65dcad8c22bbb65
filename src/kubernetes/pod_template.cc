#include "kubernetes/pod_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "kubernetes/fields.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes {
namespace {

using fields::Element;

constexpr std::size_t kContainersMax = 100, kVariablesMax = 2'000, kVariableBytesMax = 1U << 20;
constexpr std::int64_t kGpusMax = 1'000;

/// Labels by which node feature discovery and the clouds name a node's GPU, the surest first.
constexpr std::array<std::string_view, 9> kProductLabels{
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "habana.ai/gaudi.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "gpu.nvidia.com/model",
    "gpu.nvidia.com/class",
};

/// Flags that change what an engine says, not how fast it is.
constexpr std::array<std::string_view, 16> kQuietFlags{
    "host",
    "port",
    "served-model-name",
    "alias",
    "root-path",
    "chat-template",
    "uvicorn-log-level",
    "log-level",
    "verbose",
    "metrics",
    "enable-metrics",
    "disable-log-requests",
    "disable-log-stats",
    "no-enable-log-requests",
    "tool-call-parser",
    "enable-auto-tool-choice",
};

Words words_at(Element container, std::string_view key) {
  Words words;
  if (const auto list = fields::list_at(container, {key})) {
    for (const auto item : *list) {
      std::string_view word;
      if (item.get(word) == simdjson::SUCCESS) words.emplace_back(word);
    }
  }
  return words;
}

/// Variables with a value in the template; those from a Secret or a field are not known here.
Environment environment_of(Element container) {
  Environment environment;
  std::size_t bytes = 0;
  const auto list = fields::list_at(container, {"env"});
  if (!list) return environment;
  for (const auto item : *list) {
    const auto name = fields::text_at(item, {"name"});
    if (name.empty() || !fields::at(item, {"value"})) continue;
    if (environment.size() >= kVariablesMax || bytes > kVariableBytesMax) break;
    auto value = expand_references(fields::text_at(item, {"value"}), environment);
    bytes += value.size();
    environment[name] = std::move(value);
  }
  return environment;
}

std::int64_t quantity(Element value) {
  std::int64_t whole = 0;
  if (value.get(whole) == simdjson::SUCCESS) return std::clamp<std::int64_t>(whole, 0, kGpusMax);
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return 0;
  return std::clamp<std::int64_t>(core::parse_int(text).value_or(0), 0, kGpusMax);
}

std::int64_t gpus_of(Element container) {
  for (const std::string_view kind : {"limits", "requests"}) {
    std::int64_t gpus = 0;
    const auto resources = fields::at(container, {"resources", kind});
    simdjson::dom::object object;
    if (!resources || resources->get(object) != simdjson::SUCCESS) continue;
    for (const auto field : object) {
      if (is_gpu_resource(field.key)) gpus += quantity(field.value);
    }
    if (gpus > 0) return std::min(gpus, kGpusMax);
  }
  return 0;
}

struct ContainerReading {
  EngineFlags engine;
  std::int64_t gpus = 0;
  std::vector<std::string> notes;
};

/// The port that a container offers for requests, where no flag says it.
std::optional<int> named_port(Element container) {
  const auto ports = fields::list_at(container, {"ports"});
  if (!ports) return {};
  std::optional<int> first;
  for (const auto item : *ports) {
    const auto number = fields::whole_at(item, {"containerPort"});
    if (!number || *number < 1 || *number > 65535) continue;
    const auto name = fields::text_at(item, {"name"});
    if (name == "http" || name == "api" || name == "serve" || name == "vllm") {
      return static_cast<int>(*number);
    }
    if (!first) first = static_cast<int>(*number);
  }
  return first;
}

ContainerReading read_container(Element container) {
  ContainerReading reading;
  const auto environment = environment_of(container);
  const auto commands =
      container_commands(words_at(container, "command"), words_at(container, "args"), environment);
  reading.engine = read_engine_flags(fields::text_at(container, {"image"}), commands, environment,
                                     reading.notes);
  reading.gpus = gpus_of(container);
  if (!reading.engine.all.contains("port") && !environment.contains("LLAMA_ARG_PORT")) {
    if (const auto port = named_port(container)) reading.engine.port = *port;
  }
  return reading;
}

std::vector<ContainerReading> read_containers(Element pod_template, std::string_view key) {
  std::vector<ContainerReading> readings;
  if (const auto list = fields::list_at(pod_template, {"spec", key})) {
    for (const auto container : *list) {
      if (readings.size() >= kContainersMax) break;
      readings.push_back(read_container(container));
    }
  }
  return readings;
}

/// The container that is the engine: a known one before others, and with GPUs before without.
const ContainerReading* engine_of(const std::vector<ContainerReading>& containers) {
  const auto rank = [](const ContainerReading& c) {
    return (c.engine.engine != "unknown" ? 2 : 0) + (c.gpus > 0 ? 1 : 0);
  };
  const ContainerReading* best = nullptr;
  for (const auto& container : containers) {
    if (best == nullptr || rank(container) > rank(*best)) best = &container;
  }
  return best;
}

bool is_product_label(std::string_view key) {
  return std::find(kProductLabels.begin(), kProductLabels.end(), key) != kProductLabels.end();
}

/// Products that one term of a required node affinity allows; empty: it does not say.
std::set<std::string> products_of_term(Element term) {
  std::set<std::string> products;
  const auto expressions = fields::list_at(term, {"matchExpressions"});
  if (!expressions) return products;
  for (const auto expression : *expressions) {
    if (!is_product_label(fields::text_at(expression, {"key"})) ||
        fields::text_at(expression, {"operator"}) != "In") {
      continue;
    }
    if (const auto values = fields::list_at(expression, {"values"})) {
      for (const auto value : *values) {
        std::string_view text;
        if (value.get(text) == simdjson::SUCCESS) products.emplace(text);
      }
    }
  }
  return products;
}

/// Only what is required counts: a preference is no promise.
std::string accelerator_of_affinity(Element pod_template, std::vector<std::string>& notes) {
  const auto terms = fields::list_at(
      pod_template, {"spec", "affinity", "nodeAffinity",
                     "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  if (!terms) return "";
  std::set<std::string> products;
  for (const auto term : *terms) {
    auto of_term = products_of_term(term);
    if (of_term.empty()) return "";
    products.merge(of_term);
  }
  if (products.size() == 1) return *products.begin();
  if (products.size() > 1) {
    notes.push_back(fmt::format(
        "its node affinity allows {} kinds of GPU, {} and {} among them; a variant is of one kind: "
        "make a Deployment for each",
        products.size(), core::quoted(*products.begin()), core::quoted(*products.rbegin())));
  }
  return "";
}

std::string value_of(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? "" : found->second;
}

std::string role_of(const std::map<std::string, std::string>& labels) {
  const auto role = value_of(labels, "llm-d.ai/role");
  return role == "prefill" || role == "decode" ? role : "both";
}

}  // namespace

bool is_gpu_resource(std::string_view name) {
  return name == "nvidia.com/gpu" || name == "nvidia.com/gpu.shared" ||
         name.starts_with("nvidia.com/mig-") || name == "amd.com/gpu" ||
         name == "gpu.intel.com/i915" || name == "gpu.intel.com/xe" || name == "habana.ai/gaudi" ||
         name == "google.com/tpu" || name == "aws.amazon.com/neuron";
}

std::string node_product(const std::map<std::string, std::string>& node_labels) {
  for (const auto label : kProductLabels) {
    if (auto product = value_of(node_labels, std::string(label)); !product.empty()) return product;
  }
  return "";
}

std::string stated_accelerator(const std::map<std::string, std::string>& labels,
                               const std::map<std::string, std::string>& annotations) {
  for (const auto* map : {&annotations, &labels}) {
    for (const char* key : {"tailrace.dev/accelerator", "inference.optimization/acceleratorName"}) {
      if (auto stated = value_of(*map, key); !stated.empty()) return stated;
    }
  }
  return "";
}

TemplateReading read_pod_template(Element pod_template) {
  TemplateReading reading;
  reading.labels = fields::texts_at(pod_template, {"metadata", "labels"});
  reading.annotations = fields::texts_at(pod_template, {"metadata", "annotations"});
  reading.role = role_of(reading.labels);
  const auto containers = read_containers(pod_template, "containers");
  if (const auto* engine = engine_of(containers)) {
    reading.engine = engine->engine;
    reading.notes = engine->notes;
  }
  std::int64_t together = 0, alone = 0;
  for (const auto& container : containers) together += container.gpus;
  for (const auto& container : read_containers(pod_template, "initContainers")) {
    alone = std::max(alone, container.gpus);
  }
  reading.gpus = static_cast<int>(std::min(std::max(together, alone), kGpusMax));
  reading.accelerator = stated_accelerator(reading.labels, reading.annotations);
  if (reading.accelerator.empty()) {
    reading.accelerator = node_product(fields::texts_at(pod_template, {"spec", "nodeSelector"}));
  }
  if (reading.accelerator.empty()) {
    reading.accelerator = accelerator_of_affinity(pod_template, reading.notes);
  }
  const auto stated_engine = value_of(reading.annotations, "tailrace.dev/engine");
  for (const char* engine : {"vllm", "sglang", "tensorrt-llm", "llama.cpp"}) {
    if (stated_engine == engine) reading.engine.engine = engine;
  }
  return reading;
}

std::string fingerprint(const EngineFlags& engine, const std::string& accelerator, int gpus) {
  std::string all;
  const auto add = [&all](std::string_view text) {
    all += text;
    all += '\xff';  // no byte of UTF-8: parts stay apart
  };
  add(engine.engine);
  add(engine.image);
  for (const auto& [name, value] : engine.all) {
    if (std::find(kQuietFlags.begin(), kQuietFlags.end(), name) != kQuietFlags.end()) continue;
    add(name);
    add(value);
  }
  add(accelerator);
  add(std::to_string(gpus));
  return fmt::format("{:016x}", stable_hash(all));
}

}  // namespace tailrace::kubernetes
