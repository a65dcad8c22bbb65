#include "observe/exporters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "observe/engine_tables.h"

namespace tailrace::observe {
namespace {

using std::string_view;

constexpr std::array<string_view, 2> kNamespaceLabels{"namespace", "kubernetes_namespace"};
constexpr std::array<string_view, 2> kPodLabels{"pod", "kubernetes_pod_name"};
constexpr string_view kVariantLabel = "llm_d_ai_variant";
constexpr string_view kModelLabel = "model_name";
/// Say how something was scraped, not what was measured.
constexpr std::array<string_view, 14> kScrapeLabels{"cluster",  "container",
                                                    "endpoint", "instance",
                                                    "job",      "kubernetes_namespace",
                                                    "node",     "namespace",
                                                    "pod",      "kubernetes_pod_name",
                                                    "service",  "prometheus",
                                                    "receive",  "prometheus_replica"};

template <std::size_t N>
std::string first_of(const Labels& labels, const std::array<string_view, N>& names) {
  for (const auto name : names) {
    const auto found = labels.find(std::string(name));
    if (found != labels.end() && !found->second.empty()) return found->second;
  }
  return {};
}

/// With tensor or pipeline parallelism every rank can say the same of the one engine.
bool copy_of_rank_0(const Labels& labels) {
  for (const char* rank : {"tp_rank", "pp_rank"}) {
    const auto found = labels.find(rank);
    if (found != labels.end() && found->second != "0") return true;
  }
  return false;
}

std::size_t port_colon(const std::string& instance) {
  const auto colon = instance.rfind(':');
  const bool bare_v6 = colon != std::string::npos && instance.find(':') != colon &&
                       (instance.empty() || instance.front() != '[');
  return bare_v6 ? std::string::npos : colon;
}

struct GatewayNames {
  std::set<std::string, std::less<>> names;
  GatewayNames() {
    const auto all = series_names({});
    names.insert(all.begin(), all.end());
    names.erase(names.find(kProcessStart));
  }
};

bool is_gateway_series(string_view name) {
  static const GatewayNames kNames;
  return kNames.names.find(name) != kNames.names.end();
}

}  // namespace

std::string Origin::host() const {
  return instance.substr(0, port_colon(instance));
}

std::string Origin::port() const {
  const auto colon = port_colon(instance);
  return colon == std::string::npos ? "" : instance.substr(colon + 1);
}

Origin origin_of(const Labels& labels) {
  const auto instance = labels.find("instance");
  return {first_of(labels, kNamespaceLabels), first_of(labels, kPodLabels),
          instance == labels.end() ? "" : instance->second};
}

string_view Said::label(string_view name) const {
  const auto found = labels.find(std::string(name));
  return found == labels.end() ? string_view{} : string_view(found->second);
}

const std::vector<Said>& Exporter::named(string_view name) const {
  static const std::vector<Said> kNone;
  const auto found = said.find(name);
  return found == said.end() ? kNone : found->second;
}

std::span<const Point> Exporter::starts() const {
  const auto& own = named(kProcessStart);
  return own.empty() ? std::span<const Point>{} : std::span<const Point>(own.front().track->points);
}

std::optional<EngineKind> engine_of(string_view series_name) {
  for (const auto& table : engine_tables()) {
    for (const auto prefix : table.prefixes) {
      if (series_name.starts_with(prefix)) return table.kind;
    }
  }
  return std::nullopt;
}

std::vector<Exporter> exporters_of(const SeriesHistory& history) {
  std::map<Origin, std::map<SeriesKey, const Track*>> found;
  for (const auto& [key, track] : history.tracks()) {
    if (copy_of_rank_0(key.labels)) continue;
    SeriesKey own = key;
    for (const auto label : kScrapeLabels) own.labels.erase(std::string(label));
    auto& place = found[origin_of(key.labels)][own];
    if (place == nullptr || track.newest_s() > place->newest_s()) place = &track;
  }
  std::vector<Exporter> out;
  for (auto& [origin, series] : found) {
    Exporter exporter;
    exporter.origin = origin;
    exporter.newest_s = -HUGE_VAL;
    for (auto& [key, track] : series) {
      Said said{key.labels, track};
      if (const auto engine = engine_of(key.name)) {
        if (!exporter.engine) exporter.engine = engine;
        if (const auto model = said.label(kModelLabel); !model.empty()) {
          exporter.models.emplace(model);
        }
      }
      exporter.gateway = exporter.gateway || is_gateway_series(key.name);
      if (const auto variant = said.label(kVariantLabel); !variant.empty()) {
        exporter.variant = variant;
      }
      exporter.newest_s = std::max(exporter.newest_s, track->newest_s());
      exporter.began_s = std::max(exporter.began_s, track->began_s);
      exporter.said[key.name].push_back(std::move(said));
    }
    out.push_back(std::move(exporter));
  }
  return out;
}

}  // namespace tailrace::observe
