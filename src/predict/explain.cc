#include "predict/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "predict/feature_names.h"
#include "predict/request_text.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr double kLeastShift = 0.01;
constexpr std::size_t kNamesTogether = 3;

using ByName = std::map<std::string, double>;

void add_groups(const HierarchicalPrior& prior, const RequestFeatures& request, ByName& shifts) {
  const auto offsets = prior.offsets(request);
  // Requests without tenant or system prompt have groups too, but what is not there cannot be
  // named: their share goes to the group around.
  const std::string call(kKindOfCall);
  const std::string tenant = tenant_name(request);
  const std::string names[] = {"family of models", quoted_name("model", request.model), call,
                               tenant, request.system_fingerprint != 0 ? "system prompt" : tenant};
  for (std::size_t level = 0; level < offsets.size(); ++level) {
    shifts[names[level]] += offsets[level];
  }
}

/// The distinct names of the features at one place of the table, as one.
std::string together(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string joined = names[0];
  for (std::size_t i = 1; i < std::min(names.size(), kNamesTogether); ++i) {
    joined += " or " + names[i];
  }
  return joined;
}

void add_features(const LinearModel& model, const RequestFeatures& request, ByName& shifts) {
  std::map<std::uint64_t, std::vector<std::string>> names_of_hash;
  for (NamedFeature& named : name_features(request)) {
    names_of_hash[named.feature.hash].push_back(std::move(named.name));
  }
  FeatureList features;
  extract_features(request, features);
  const auto found = model.shifts(features, stable_hash(request.tenant));
  struct Place {
    std::vector<std::string> names;
    double mu = 0;
  };
  std::map<std::size_t, Place> places;
  for (std::size_t i = 0; i < features.size(); ++i) {
    Place& place = places[found[i].place];
    const auto& names = names_of_hash[features[i].hash];
    place.names.insert(place.names.end(), names.begin(), names.end());
    place.mu += found[i].mu;
  }
  for (auto& [index, place] : places) shifts[together(std::move(place.names))] += place.mu;
}

}  // namespace

std::vector<Influence> explain(const HierarchicalPrior& prior, const LinearModel& model,
                               const RequestFeatures& request, std::size_t limit) {
  ByName shifts;
  add_groups(prior, request, shifts);
  add_features(model, request, shifts);
  shifts.erase(std::string(kEveryRequest));
  std::vector<Influence> influences;
  for (const auto& [name, shift] : shifts) {
    if (std::abs(shift) >= kLeastShift) influences.push_back({name, shift});
  }
  std::sort(influences.begin(), influences.end(), [](const Influence& a, const Influence& b) {
    const double of_a = std::abs(a.log_shift);
    const double of_b = std::abs(b.log_shift);
    return of_a != of_b ? of_a > of_b : a.what < b.what;
  });
  if (influences.size() > limit) influences.resize(limit);
  return influences;
}

}  // namespace tailrace::predict
