#include "observe/matching.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tailrace::observe {
namespace {

bool namespace_fits(const Exporter& exporter, const ExpectedVariant& variant) {
  return exporter.origin.ns.empty() || variant.ns.empty() || exporter.origin.ns == variant.ns;
}

bool model_fits(const Exporter& exporter, const ExpectedVariant& variant) {
  return exporter.models.empty() ||
         std::any_of(exporter.models.begin(), exporter.models.end(),
                     [&](const std::string& model) { return serves(variant, model); });
}

bool address_fits(const Origin& origin, const std::string& address) {
  if (address.empty() || origin.instance.empty()) return false;
  return origin.instance == address || origin.host() == address;
}

/// Which of the variant's pods it is by name or address.
std::optional<std::size_t> pod_of(const Exporter& exporter, const ExpectedVariant& variant) {
  for (std::size_t i = 0; i < variant.pods.size(); ++i) {
    const auto& pod = variant.pods[i];
    const bool named = !exporter.origin.pod.empty();
    if (named
            ? exporter.origin.pod == pod.name
            : address_fits(exporter.origin, pod.address) || exporter.origin.instance == pod.name) {
      return i;
    }
  }
  return std::nullopt;
}

/// How well it fits, worst first; of several variants with pods of one name the best counts.
int quality(const Match& m) {
  return m.matched() ? 2 : m.blamed_label == "model_name" ? 1 : 0;
}

}  // namespace

bool serves(const ExpectedVariant& variant, std::string_view model) {
  return model == variant.model ||
         std::find(variant.model_aliases.begin(), variant.model_aliases.end(), model) !=
             variant.model_aliases.end();
}

std::optional<Match> match(const Exporter& exporter, std::span<const ExpectedVariant> expected) {
  std::optional<Match> best;
  for (std::size_t v = 0; v < expected.size(); ++v) {
    const auto& variant = expected[v];
    Match found;
    found.variant = v;
    found.pod = pod_of(exporter, variant);
    const bool labelled = !exporter.variant.empty() && exporter.variant == variant.name;
    if (!found.pod && !labelled) continue;
    if (!namespace_fits(exporter, variant)) {
      found.blamed_label = "namespace";
      found.seen = {exporter.origin.ns};
      found.wanted = {variant.ns};
    } else if (!model_fits(exporter, variant)) {
      found.blamed_label = "model_name";
      found.seen.assign(exporter.models.begin(), exporter.models.end());
      found.wanted = variant.model_aliases;
      found.wanted.insert(found.wanted.begin(), variant.model);
    } else if (!exporter.variant.empty() && !labelled) {
      found.blamed_label = "llm_d_ai_variant";
      found.seen = {exporter.variant};
      found.wanted = {variant.name};
    }
    if (!best || quality(found) > quality(*best)) best = std::move(found);
  }
  return best;
}

void drop_moved(std::vector<Exporter>& exporters) {
  std::map<std::tuple<std::string, std::string, std::string>, double> newest;
  const auto place = [](const Exporter& e) {
    return std::tuple(e.origin.ns, e.origin.pod, e.origin.port());
  };
  for (const auto& e : exporters) {
    if (e.origin.pod.empty()) continue;
    const auto [at, fresh] = newest.try_emplace(place(e), e.newest_s);
    if (!fresh) at->second = std::max(at->second, e.newest_s);
  }
  std::erase_if(exporters, [&](const Exporter& e) {
    return !e.origin.pod.empty() && e.newest_s < newest.at(place(e));
  });
}

std::string_view without_rank(std::string_view pod) {
  constexpr std::string_view kRank = "-rank-";
  const auto at = pod.rfind(kRank);
  if (at == std::string_view::npos) return pod;
  const auto digits = pod.substr(at + kRank.size());
  const bool number = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
  return number ? pod.substr(0, at) : pod;
}

}  // namespace tailrace::observe
