#include "predict/output_law.h"

#include <algorithm>
#include <cmath>

#include "predict/hash.h"
#include "tailrace/core/check.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

// Chosen on bench/output_law_bench; the scores are flat within a factor of two around each.
constexpr double kWider = 1.8;           // the second log-t's sigma, relative
constexpr float kRootStrength = 4;       // the configured prior counts as this many answers
constexpr float kGroupStrength = 20;     // and a coarser group's law
constexpr float kPromptStrength = 6;     // and what is said of a prompt without its own answers
constexpr double kAlikeWidth = 1.0 / 3;  // of ln tokens: predictions that count as alike
// The share of the pool that is dealt out evenly after every answer: any member can come back.
constexpr double kFixedShare = 1e-3;
constexpr std::uint32_t kMaxCredit = 1000;
constexpr std::array<double, 4> kPoolStart = {0.7, 0.2, 0.05, 0.05};

/// 0 is the empty place of a table.
std::uint64_t key(std::uint64_t kind, std::uint64_t what) {
  const std::uint64_t hash = combine(kind, what);
  return hash == 0 ? 1 : hash;
}

}  // namespace

const std::array<float, OutputLaw::kExperts> OutputLaw::kStart = [] {
  std::array<float, kExperts> start{};
  start[kLogT] = 1;
  start[kModel] = start[kSystem] = 0.1F;
  start[kPrompt] = start[kPromptOfModel] = 0.2F;
  return start;
}();

OutputLaw::OutputLaw(const PredictorOptions& options)
    : output_(options.output), shared_{HazardMixer(kStart), kPoolStart} {
  all_.key = 1;
  log_t_bins(options.prior_mu, options.prior_sigma, prior_);
}

OutputLaw::Keys OutputLaw::keys_of(const RequestFeatures& f, double mu) {
  std::uint64_t call = combine(stable_hash(f.route), stable_hash(f.response_format));
  call = combine(call, stable_hash(f.reasoning_effort));
  call = combine(call, (f.tools > 0 ? 2U : 0U) + (f.tool_choice_forced ? 1U : 0U));
  const std::uint64_t tenant = stable_hash(f.tenant);
  const auto prompt_tokens =
      static_cast<double>(std::clamp<std::int64_t>(f.prompt_tokens.count(), 0, 1'000'000'000));
  Keys keys{};
  keys[kModel] = key(kModel, stable_hash(f.model));
  keys[kCall] = key(kCall, combine(keys[kModel], call));
  keys[kTenant] = key(kTenant, combine(keys[kCall], tenant));
  keys[kSystem] = key(kSystem, combine(keys[kTenant], f.system_fingerprint));
  keys[kPromptLength] =
      key(kPromptLength, static_cast<std::uint64_t>(std::lround(2 * std::log1p(prompt_tokens))));
  keys[kAlike] = key(kAlike, static_cast<std::uint64_t>(std::lround(mu / kAlikeWidth) + 1000));
  // A tenant's repeated prompts are its own: nobody else can teach what they get.
  keys[kPrompt] = key(kPrompt, combine(f.prompt_fingerprint, tenant));
  keys[kPromptOfModel] = key(kPromptOfModel, combine(keys[kPrompt], keys[kModel]));
  return keys;
}

void OutputLaw::refine(Expert expert, Expert parent, float strength) {
  bool known = false;
  if (expert == kPrompt || expert == kPromptOfModel) {
    known = prompts_.law(keys_[expert], laws_[parent], strength, laws_[expert]);
  } else if (const Histogram* group = groups_.find(keys_[expert])) {
    group->shrink_to(laws_[parent], strength, laws_[expert]);
    known = true;
  }
  if (!known) {
    laws_[expert] = laws_[parent];
    odds_[expert] = odds_[parent];
    inputs_[expert].fill(0);
    return;
  }
  log_odds(laws_[expert], odds_[expert]);
  for (std::size_t i = 0; i < kBins; ++i) {
    inputs_[expert][i] = odds_[expert][i] - odds_[parent][i];
  }
}

const Bins& OutputLaw::consult(const RequestFeatures& features, const Law& law) {
  keys_ = keys_of(features, law.mu);
  tenant_ = stable_hash(features.tenant);
  const double sigma = std::exp(law.log_sigma);
  log_t_bins(law.mu, sigma, laws_[kLogT]);
  log_t_bins(law.mu, kWider * sigma, laws_[kWide]);
  all_.shrink_to(prior_, kRootStrength, laws_[kAll]);
  for (const Expert expert : {kLogT, kWide, kAll}) log_odds(laws_[expert], odds_[expert]);
  inputs_[kLogT] = odds_[kLogT];
  for (const Expert expert : {kWide, kAll}) {
    for (std::size_t i = 0; i < kBins; ++i) {
      inputs_[expert][i] = odds_[expert][i] - odds_[kLogT][i];
    }
  }
  refine(kModel, kAll, kGroupStrength);
  refine(kCall, kModel, kGroupStrength);
  refine(kTenant, kCall, kGroupStrength);
  refine(kSystem, kTenant, kGroupStrength);
  refine(kPromptLength, kAll, kGroupStrength);
  refine(kAlike, kLogT, kGroupStrength);
  if (features.prompt_fingerprint == 0) keys_[kPrompt] = keys_[kPromptOfModel] = 0;
  refine(kPrompt, kAll, kPromptStrength);
  refine(kPromptOfModel, kLogT, kPromptStrength);
  join();
  return law_;
}

void OutputLaw::join() {
  if (output_ == Output::kBinned) {
    law_ = laws_[kSystem];
    return;
  }
  const Joint& joint = joint_of(tenant_);
  joint.mixer.mix(inputs_, mixed_);
  law_.fill(0);
  for (std::size_t m = 0; m < kPool; ++m) {
    const auto share = static_cast<float>(joint.pool[m]);
    const Bins& member = pooled(m);
    for (std::size_t i = 0; i < kBins; ++i) law_[i] += share * member[i];
  }
}

const Bins& OutputLaw::pooled(std::size_t i) const {
  const std::array<const Bins*, kPool> members = {&mixed_, &laws_[kLogT], &laws_[kAll],
                                                  &laws_[kSystem]};
  return *members[i];
}

void OutputLaw::learn(const Observation& observation, double weight) {
  const double tokens = std::max(1.0, static_cast<double>(observation.length.count()));
  const bool cut = observation.censored;
  const std::size_t bin = bin_of(tokens);
  const double passed = passed_share(bin, tokens);

  std::array<double, kPool> scores{};
  for (std::size_t m = 0; m < kPool; ++m) {
    const Bins& law = pooled(m);
    float mass = cut ? static_cast<float>(1 - passed) * law[bin] : law[bin];
    for (std::size_t i = bin + 1; cut && i < kBins; ++i) mass += law[i];
    scores[m] = std::log(std::max(static_cast<double>(mass), 1e-9));
  }
  // The tenant's first: a new one starts from what was known before this answer.
  if (Joint* own = find_or_claim_joint(tenant_)) teach(*own, scores, bin, cut, passed, 1);
  teach(shared_, scores, bin, cut, passed, weight);

  const auto add = [&](Histogram* group, double by) {
    if (group == nullptr) return;
    if (cut) {
      group->add_cut(tokens, static_cast<float>(by));
    } else {
      group->add(tokens, static_cast<float>(by));
    }
  };
  add(&all_, weight);
  for (const Expert expert : {kModel, kCall, kPromptLength, kAlike}) {
    add(groups_.find_or_claim(keys_[expert]), weight);
  }
  for (const Expert expert : {kTenant, kSystem}) add(groups_.find_or_claim(keys_[expert]), 1);
  // A cut answer would make its prompt look short.
  if (!cut && keys_[kPrompt] != 0) {
    prompts_.add(keys_[kPrompt], bin);
    prompts_.add(keys_[kPromptOfModel], bin);
  }
}

void OutputLaw::teach(Joint& joint, const std::array<double, kPool>& scores, std::size_t bin,
                      bool cut, double passed, double weight) {
  double total = 0;
  for (std::size_t m = 0; m < kPool; ++m) {
    total += joint.pool[m] *= std::exp(weight * scores[m]);
  }
  for (double& share : joint.pool) {
    share = (1 - kFixedShare) * share / total + kFixedShare / static_cast<double>(kPool);
  }
  joint.mixer.learn(inputs_, bin, cut, passed, weight);
}

const OutputLaw::Joint& OutputLaw::joint_of(std::uint64_t tenant) const {
  const auto at = std::find_if(joints_.begin(), joints_.end(),
                               [&](const Joint& joint) { return joint.tenant == tenant; });
  return at == joints_.end() ? shared_ : *at;
}

OutputLaw::Joint* OutputLaw::find_or_claim_joint(std::uint64_t tenant) {
  Joint* poorest = nullptr;
  for (Joint& joint : joints_) {
    if (joint.tenant == tenant) {
      joint.credit = std::min(joint.credit + 1, kMaxCredit);
      return &joint;
    }
    if (poorest == nullptr || joint.credit < poorest->credit) poorest = &joint;
  }
  const Joint fresh{shared_.mixer.afresh(), shared_.pool, tenant, 1};
  if (joints_.size() < kJoints) return &joints_.emplace_back(fresh);
  if (poorest->credit > 0) --poorest->credit;
  if (poorest->credit > 0) return nullptr;
  return &(*poorest = fresh);
}

/// Those whose keys do not hang on the prediction, which may differ at the answer's end.
template <class Use>
void OutputLaw::each_lasting_group(const RequestFeatures& features, double weight, Use use) {
  const Keys keys = keys_of(features, 0);
  use(all_, weight);
  for (const Expert expert : {kModel, kCall, kPromptLength, kTenant, kSystem}) {
    const double by = expert == kTenant || expert == kSystem ? 1 : weight;
    if (Histogram* group = groups_.find_or_claim(keys[expert])) use(*group, by);
  }
}

void OutputLaw::learn_running(const RequestFeatures& features, Tokens tokens, Tokens before,
                              double weight) {
  each_lasting_group(features, weight, [&](Histogram& group, double by) {
    if (before.count() > 0) {
      group.take_back_cut(static_cast<double>(before.count()), static_cast<float>(by));
    }
    group.add_cut(static_cast<double>(tokens.count()), static_cast<float>(by));
  });
}

void OutputLaw::take_back(const RequestFeatures& features, Tokens reported, double weight) {
  each_lasting_group(features, weight, [&](Histogram& group, double by) {
    group.take_back_cut(static_cast<double>(reported.count()), static_cast<float>(by));
  });
}

void OutputLaw::write(ImageWriter& out) const {
  predict::write(all_, out);
  groups_.write(out);
  prompts_.write(out);
  out.u32(static_cast<std::uint32_t>(joints_.size()));
  const auto write_joint = [&out](const Joint& joint) {
    out.u64(joint.tenant);
    out.u32(joint.credit);
    joint.mixer.write(out);
    for (const double share : joint.pool) out.f64(share);
  };
  write_joint(shared_);
  for (const Joint& joint : joints_) write_joint(joint);
}

bool OutputLaw::read(ImageReader& in) {
  if (!predict::read(all_, in)) return false;
  if (!groups_.read(in) || !prompts_.read(in)) return false;
  const std::uint32_t count = in.u32();
  if (!in.ok() || count > kJoints) return false;
  const auto read_joint = [&in](Joint& joint) {
    joint.tenant = in.u64();
    joint.credit = std::min(in.u32(), kMaxCredit);
    if (!joint.mixer.read(in)) return false;
    for (double& share : joint.pool) share = in.f64_within(1e-9, 1);
    return in.ok();
  };
  if (!read_joint(shared_)) return false;
  joints_.assign(count, shared_);
  return std::all_of(joints_.begin(), joints_.end(), read_joint);
}

length::LengthLaw to_length_law(const Bins& mass) {
  constexpr double kLeast = 1e-9;  // nothing is impossible
  std::array<double, kBins> masses;
  for (std::size_t i = 0; i < kBins; ++i) masses[i] = static_cast<double>(mass[i]) + kLeast;
  auto made = length::LengthLaw::binned(kEdge, masses);
  TAILRACE_CHECK(made.has_value());  // fixed edges, positive masses
  return *made;
}

}  // namespace tailrace::predict
