#include "predict/hierarchical_prior.h"

#include <algorithm>
#include <cmath>

#include "predict/hash.h"
#include "predict/log_t_score.h"
#include "predict/prompt_words.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr std::size_t kWays = 8;  // groups that share a set and compete for it
constexpr std::uint32_t kMaxCredit = 1000;
constexpr double kMemory = 1000;       // observations; older ones fade, so that drift is followed
constexpr double kRootStrength = 5;    // the configured prior counts as this many observations
constexpr double kGroupStrength = 10;  // no offset counts as this many
constexpr double kMaxOffset = 20;
constexpr std::size_t kTenantLevel = 3;  // from here on groups are one tenant's own
constexpr double kLogSigmaMin = -3, kLogSigmaMax = 1.2;

/// One natural-gradient step of maximum likelihood for a t law; with steps of 1/n it is as
/// efficient as the batch estimate.
struct Step {
  double mu = 0;
  double log_sigma = 0;
};

Step step(const Law& law, double y, bool censored) {
  const double sigma = std::exp(law.log_sigma);
  const Score s = score((y - law.mu) / sigma, censored);
  return {std::clamp(s.location / kLocationInformation, -3.0, 3.0) * sigma,
          std::clamp(s.log_scale / kLogScaleInformation, -2.0, 2.0)};
}

/// "meta-llama/Llama-3-8B" and "unsloth/llama-2-7b" are of one family: the letters that the name
/// proper begins with.
std::uint64_t family_of(std::string_view model) {
  const auto slash = model.find_last_of('/');
  std::string_view name = slash == std::string_view::npos ? model : model.substr(slash + 1);
  const auto letters = std::find_if_not(
      name.begin(), name.end(), [](char c) { return is_letter(static_cast<unsigned char>(c)); });
  return folded_hash(name.substr(0, static_cast<std::size_t>(letters - name.begin())));
}

double clamp_log_sigma(double log_sigma) {
  return std::clamp(log_sigma, kLogSigmaMin, kLogSigmaMax);
}

}  // namespace

HierarchicalPrior::HierarchicalPrior(double prior_mu, double prior_sigma)
    : all_{prior_mu, clamp_log_sigma(std::log(prior_sigma))}, groups_(kGroups) {}

HierarchicalPrior::Keys HierarchicalPrior::keys_of(const RequestFeatures& f) {
  const std::uint64_t model = stable_hash(f.model);
  std::uint64_t call = combine(stable_hash(f.route), stable_hash(f.response_format));
  call = combine(call, stable_hash(f.reasoning_effort));
  call = combine(call, (f.tools > 0 ? 2U : 0U) + (f.tool_choice_forced ? 1U : 0U));
  // Each group lies inside the one before: offsets of crossing groups would share what is common.
  Keys keys{};
  const std::uint64_t names[] = {family_of(f.model), model, call, stable_hash(f.tenant),
                                 f.system_fingerprint};
  std::uint64_t path = 0;
  for (std::size_t level = 0; level < kLevels; ++level) {
    path = combine(path, names[level]);
    const std::uint64_t key = combine(level, path);
    keys[level] = key == 0 ? 1 : key;
  }
  return keys;
}

const HierarchicalPrior::Group* HierarchicalPrior::find(std::uint64_t key) const {
  const std::size_t first = (key % (kGroups / kWays)) * kWays;
  for (std::size_t i = first; i < first + kWays; ++i) {
    if (groups_[i].key == key) return &groups_[i];
  }
  return nullptr;
}

HierarchicalPrior::Group* HierarchicalPrior::find_or_claim(std::uint64_t key) {
  const std::size_t first = (key % (kGroups / kWays)) * kWays;
  Group* poorest = &groups_[first];
  for (std::size_t i = first; i < first + kWays; ++i) {
    Group& group = groups_[i];
    if (group.key == key) {
      group.credit = std::min(group.credit + 1, kMaxCredit);
      return &group;
    }
    if (group.credit < poorest->credit) poorest = &group;
  }
  if (poorest->credit > 0) {
    --poorest->credit;
    if (poorest->credit > 0) return nullptr;
  }
  *poorest = Group{};
  poorest->key = key;
  poorest->credit = 1;
  return poorest;
}

Law HierarchicalPrior::predict(const RequestFeatures& features) const {
  Law law = all_;
  for (const std::uint64_t key : keys_of(features)) {
    const Group* group = find(key);
    if (group == nullptr) continue;
    law.mu += group->mu;
    law.log_sigma += group->log_sigma;
  }
  law.log_sigma = clamp_log_sigma(law.log_sigma);
  return law;
}

std::array<double, HierarchicalPrior::kLevels> HierarchicalPrior::offsets(
    const RequestFeatures& features) const {
  const Keys keys = keys_of(features);
  std::array<double, kLevels> offsets{};
  for (std::size_t level = 0; level < kLevels; ++level) {
    const Group* group = find(keys[level]);
    if (group != nullptr) offsets[level] = static_cast<double>(group->mu);
  }
  return offsets;
}

void HierarchicalPrior::observe(const RequestFeatures& features, double y, bool censored,
                                double weight) {
  Law law = all_;
  weight_ = std::min(weight_ + weight, kMemory);
  const Step root = step(law, y, censored);
  const double root_rate = weight / (weight_ + kRootStrength);
  all_.mu = std::clamp(all_.mu + root_rate * root.mu, -kMaxOffset, kMaxOffset);
  all_.log_sigma = clamp_log_sigma(all_.log_sigma + root_rate * root.log_sigma);

  law = all_;
  const Keys keys = keys_of(features);
  for (std::size_t level = 0; level < kLevels; ++level) {
    Group* group = find_or_claim(keys[level]);
    if (group == nullptr) continue;
    const double counts = level < kTenantLevel ? weight : 1;
    law.mu += group->mu;
    law.log_sigma = clamp_log_sigma(law.log_sigma + group->log_sigma);
    group->weight =
        std::min(group->weight + static_cast<float>(counts), static_cast<float>(kMemory));
    const double rate = counts / (static_cast<double>(group->weight) + kGroupStrength);
    const Step move = step(law, y, censored);
    group->mu = static_cast<float>(
        std::clamp(static_cast<double>(group->mu) + rate * move.mu, -kMaxOffset, kMaxOffset));
    group->log_sigma = static_cast<float>(
        std::clamp(static_cast<double>(group->log_sigma) + rate * move.log_sigma, -5.0, 5.0));
    law.mu += rate * move.mu;
    law.log_sigma = clamp_log_sigma(law.log_sigma + rate * move.log_sigma);
  }
}

void HierarchicalPrior::write(ImageWriter& out) const {
  out.f64(all_.mu);
  out.f64(all_.log_sigma);
  out.f64(weight_);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (group.key == 0) continue;
    out.u32(static_cast<std::uint32_t>(i));
    out.u64(group.key);
    out.f32(group.mu);
    out.f32(group.log_sigma);
    out.f32(group.weight);
    out.u32(group.credit);
  }
  out.u32(kGroups);  // end mark: no such place
}

bool HierarchicalPrior::read(ImageReader& in) {
  HierarchicalPrior loaded(0, 1);
  loaded.all_.mu = in.f64_within(-kMaxOffset, kMaxOffset);
  loaded.all_.log_sigma = in.f64_within(kLogSigmaMin, kLogSigmaMax);
  loaded.weight_ = in.f64_within(0, kMemory);
  std::uint32_t next = 0;
  while (in.ok()) {
    const std::uint32_t place = in.u32();
    if (place == kGroups) break;
    if (place < next || place > kGroups) return false;
    next = place + 1;
    Group group;
    group.key = in.u64();
    group.mu = in.f32_within(-kMaxOffset, kMaxOffset);
    group.log_sigma = in.f32_within(-5, 5);
    group.weight = in.f32_within(0, kMemory);
    group.credit = std::min(in.u32(), kMaxCredit);
    if (group.key == 0) return false;
    loaded.groups_[place] = group;
  }
  if (!in.ok()) return false;
  *this = std::move(loaded);
  return true;
}

}  // namespace tailrace::predict
