#include "tailrace/length/binned.h"

#include <algorithm>
#include <cmath>

namespace tailrace::length {

Binned::Binned(std::span<const double> edges, std::span<const double> masses)
    : edges_(edges.begin(), edges.end()) {
  double total = 0;
  for (const double mass : masses) total += mass;
  survival_.resize(edges.size());
  area_.resize(edges.size());
  // From the tail on, so that small survivals keep their digits.
  double beyond = masses[edges.size()];
  for (std::size_t i = edges.size(); i-- > 0;) {
    survival_[i] = beyond / total;
    beyond += masses[i];
  }
  double area = 0;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const double low = i == 0 ? 0 : edges_[i - 1];
    const double alive = i == 0 ? 1 : survival_[i - 1];
    area += (edges_[i] - low) * (alive + survival_[i]) / 2;
    area_[i] = area;
  }
}

double Binned::mass(std::size_t bin) const {
  if (bin == edges_.size()) return survival_.back();
  return (bin == 0 ? 1 : survival_[bin - 1]) - survival_[bin];
}

double Binned::hazard(std::size_t bin) const {
  const double alive = bin == 0 ? 1 : survival_[bin - 1];
  return alive > 0 ? mass(bin) / alive : 1;
}

double Binned::survival(double tokens) const {
  if (!(tokens > 0)) return 1;
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), tokens);
  if (at == edges_.end()) {
    const double r = edges_.back() / tokens;
    return survival_.back() * r * r;
  }
  const auto i = static_cast<std::size_t>(at - edges_.begin());
  const double low = i == 0 ? 0 : edges_[i - 1];
  const double alive = i == 0 ? 1 : survival_[i - 1];
  return alive + (survival_[i] - alive) * ((tokens - low) / (edges_[i] - low));
}

double Binned::density(double tokens) const {
  if (!(tokens > 0)) return 0;
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), tokens);
  if (at == edges_.end()) return 2 * survival(tokens) / tokens;
  const auto i = static_cast<std::size_t>(at - edges_.begin());
  return mass(i) / (edges_[i] - (i == 0 ? 0 : edges_[i - 1]));
}

double Binned::inverse_survival(double alive) const {
  if (alive < survival_.back()) return edges_.back() * std::sqrt(survival_.back() / alive);
  const auto at = std::lower_bound(survival_.begin(), survival_.end(), alive, std::greater<>());
  const auto i = at == survival_.end() ? survival_.size() - 1
                                       : static_cast<std::size_t>(at - survival_.begin());
  const double low = i == 0 ? 0 : edges_[i - 1];
  const double before = i == 0 ? 1 : survival_[i - 1];
  const double inside = before - survival_[i];
  if (!(inside > 0)) return edges_[i];
  return low + (edges_[i] - low) * std::clamp((before - alive) / inside, 0.0, 1.0);
}

double Binned::capped_mean(double cap) const {
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), cap);
  if (at == edges_.end()) {
    const double edge = edges_.back();
    return area_.back() + survival_.back() * edge * (1 - edge / cap);
  }
  const auto i = static_cast<std::size_t>(at - edges_.begin());
  const double low = i == 0 ? 0 : edges_[i - 1];
  const double alive = i == 0 ? 1 : survival_[i - 1];
  return (i == 0 ? 0 : area_[i - 1]) + (cap - low) * (alive + survival(cap)) / 2;
}

}  // namespace tailrace::length
