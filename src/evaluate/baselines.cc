#include "tailrace/evaluate/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>

#include "evaluate/hazard_histogram.h"
#include "predict/hash.h"
#include "predict/image.h"
#include "tailrace/core/check.h"

namespace tailrace::evaluate {
namespace {

using predict::Observation;
using predict::Prediction;
using predict::Predictor;
using predict::RequestFeatures;

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kGroupsMax = 4096;  // later groups get the law of all
constexpr double kPriorEnds = 5;          // log score is flat between 2 and 10
constexpr double kFewPriorEnds = 0.3;     // the same for a handful of answers to one prompt
constexpr float kCountMax = 1e9F;

/// 0: no group.
using KeyOf = std::uint64_t (*)(const RequestFeatures&);

std::uint64_t no_group(const RequestFeatures&) {
  return 0;
}

std::uint64_t prompt_bucket(const RequestFeatures& features) {
  const double tokens = static_cast<double>(std::max(features.prompt_tokens, Tokens(1)).count());
  return 1 + static_cast<std::uint64_t>(std::lround(5 * std::log10(tokens)));
}

std::uint64_t route_group(const RequestFeatures& features) {
  const std::uint64_t route =
      predict::combine(stable_hash(features.model), stable_hash(features.route));
  return std::max<std::uint64_t>(1, predict::combine(route, features.system_fingerprint));
}

HazardHistogram read_histogram(predict::ImageReader& in) {
  HazardHistogram histogram;
  in.table(histogram.counts(), kCountMax);
  return histogram;
}

class HistogramBaseline final : public Predictor {
 public:
  HistogramBaseline(std::string_view name, KeyOf key_of) : name_(name), key_of_(key_of) {}

  std::string_view name() const override { return name_; }

  std::vector<Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<Prediction> predictions;
    predictions.reserve(batch.size());
    for (const auto& features : batch) {
      Hazards hazards = all_.sharpened(vague_, kPriorEnds);
      const auto group = groups_.find(key_of_(features));
      if (group != groups_.end()) hazards = group->second.sharpened(std::move(hazards), kPriorEnds);
      predictions.push_back({law_of(hazards), true});
    }
    return predictions;
  }

  void observe(const RequestFeatures& features, const Observation& observation) override {
    all_.add(observation, features.cap);
    const std::uint64_t key = key_of_(features);
    if (key == 0 || (groups_.size() >= kGroupsMax && !groups_.contains(key))) return;
    groups_[key].add(observation, features.cap);
  }

  std::string save() const override {
    predict::ImageWriter out(name_, kVersion);
    out.table(all_.counts());
    out.u32(static_cast<std::uint32_t>(groups_.size()));
    for (const auto& [key, histogram] : groups_) {
      out.u64(key);
      out.table(histogram.counts());
    }
    return std::move(out).finish();
  }

  Result<void> load(std::string_view image) override {
    auto in = predict::ImageReader::open(image, name_, kVersion);
    if (!in) return fail(in.error());
    HazardHistogram all = read_histogram(*in);
    std::map<std::uint64_t, HazardHistogram> groups;
    const std::uint32_t count = in->u32();
    for (std::uint32_t i = 0; i < count && i < kGroupsMax && in->ok(); ++i) {
      const std::uint64_t key = in->u64();
      groups[key] = read_histogram(*in);
    }
    if (!in->complete()) return fail(ErrorCode::kDataLoss, "baseline image: damaged payload");
    all_ = std::move(all);
    groups_ = std::move(groups);
    return {};
  }

 private:
  std::string_view name_;
  KeyOf key_of_;
  Hazards vague_ = vague_hazards();
  HazardHistogram all_;
  std::map<std::uint64_t, HazardHistogram> groups_;
};

length::LengthLaw law_at(double tokens) {
  const double low = std::max(tokens - 1, 0.5);
  const double edges[] = {low, std::max(tokens, 1.0)};
  const double masses[] = {0, 1, 0};
  auto law = length::LengthLaw::binned(edges, masses);
  TAILRACE_CHECK(law.has_value());
  return *law;
}

/// What has nothing to learn saves nothing.
class Unlearning : public Predictor {
 public:
  explicit Unlearning(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view image) override {
    if (image.empty()) return {};
    return fail(ErrorCode::kUnsupported,
                std::string(name_) + " learns nothing; its image is empty");
  }

 private:
  std::string_view name_;
};

class MaxTokensBaseline final : public Unlearning {
 public:
  MaxTokensBaseline() : Unlearning("max-tokens") {}
  std::vector<Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<Prediction> predictions;
    for (const auto& features : batch) {
      predictions.push_back({law_at(static_cast<double>(features.cap.count())), true});
    }
    return predictions;
  }
  void observe(const RequestFeatures&, const Observation&) override {}
};

class Oracle final : public Unlearning {
 public:
  explicit Oracle(std::span<const Row> rows) : Unlearning("oracle"), rows_(rows) {}
  std::vector<Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<Prediction> predictions;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Tokens length = rows_[std::min(next_ + i, rows_.size() - 1)].truth.length;
      predictions.push_back({law_at(static_cast<double>(length.count())), true});
    }
    return predictions;
  }
  void observe(const RequestFeatures&, const Observation&) override { ++next_; }

 private:
  std::span<const Row> rows_;
  std::size_t next_ = 0;
};

/// The other answers to the prompt, each spread by a normal kernel on the logarithmic scale, from
/// the start of the law of all answers.
class PromptOracle final : public Unlearning {
 public:
  explicit PromptOracle(std::span<const Row> rows) : Unlearning("prompt-oracle"), rows_(rows) {
    HazardHistogram all;
    for (const Row& row : rows) {
      all.add(row.truth, row.features.cap);
      groups_[row.group].push_back(row.truth);
    }
    all_ = all.sharpened(vague_hazards(), kPriorEnds);
  }
  std::vector<Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<Prediction> predictions;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      predictions.push_back({law_for(rows_[std::min(next_ + i, rows_.size() - 1)]), true});
    }
    return predictions;
  }
  void observe(const RequestFeatures&, const Observation&) override { ++next_; }

 private:
  length::LengthLaw law_for(const Row& row) const {
    std::vector<Observation> others = groups_.at(row.group);
    const auto own = std::find_if(others.begin(), others.end(), [&](const Observation& o) {
      return o.length == row.truth.length && o.censored == row.truth.censored;
    });
    TAILRACE_CHECK(own != others.end());
    others.erase(own);
    HazardHistogram histogram;
    const double width = kernel_width(others);
    for (const Observation& answer : others) {
      histogram.add_spread(answer, row.features.cap, width);
    }
    return law_of(histogram.sharpened(all_, kFewPriorEnds));
  }

  /// Silverman's rule on ln tokens, never narrower than what whole tokens and small samples allow.
  static double kernel_width(std::span<const Observation> answers) {
    constexpr double kNarrowest = 0.03;
    constexpr double kLone = 0.25;  // one other answer shows no spread
    if (answers.size() < 2) return kLone;
    const double n = static_cast<double>(answers.size());
    double mean = 0;
    double square = 0;
    for (const Observation& answer : answers) {
      const double y = std::log(static_cast<double>(std::max(answer.length, Tokens(1)).count()));
      mean += y / n;
      square += y * y / n;
    }
    const double deviation = std::sqrt(std::max(0.0, square - mean * mean) * n / (n - 1));
    return std::max(kNarrowest, 1.06 * deviation * std::pow(n, -0.2));
  }

  std::span<const Row> rows_;
  Hazards all_;
  std::unordered_map<std::uint64_t, std::vector<Observation>> groups_;
  std::size_t next_ = 0;
};

constexpr Contestant kContestants[] = {
    {"online", "learns from text, numbers and names of the request", false, false},
    {"prior", "a law per model, kind of call, tenant and system prompt", false, false},
    {"route", "a histogram per model, route and system prompt", false, false},
    {"prompt-length", "a histogram per bucket of prompt length", false, false},
    {"global", "one histogram for all", false, false},
    {"max-tokens", "as long as the limit allows; an order, no law", true, false},
    {"prompt-oracle", "told the other answers to the same prompt", false, true},
    {"oracle", "told the length", false, true},
};

}  // namespace

std::unique_ptr<Predictor> make_global_baseline() {
  return std::make_unique<HistogramBaseline>("global", no_group);
}
std::unique_ptr<Predictor> make_prompt_length_baseline() {
  return std::make_unique<HistogramBaseline>("prompt-length", prompt_bucket);
}
std::unique_ptr<Predictor> make_route_baseline() {
  return std::make_unique<HistogramBaseline>("route", route_group);
}
std::unique_ptr<Predictor> make_max_tokens_baseline() {
  return std::make_unique<MaxTokensBaseline>();
}
std::unique_ptr<Predictor> make_oracle(std::span<const Row> rows) {
  return std::make_unique<Oracle>(rows);
}
std::unique_ptr<Predictor> make_prompt_oracle(std::span<const Row> rows) {
  return std::make_unique<PromptOracle>(rows);
}

std::span<const Contestant> contestants() {
  return kContestants;
}

const Contestant* find_contestant(std::string_view name) {
  const auto* at = std::find_if(std::begin(kContestants), std::end(kContestants),
                                [&](const Contestant& c) { return c.name == name; });
  return at == std::end(kContestants) ? nullptr : at;
}

std::unique_ptr<Predictor> make_contestant(const Contestant& contestant,
                                           std::span<const Row> rows) {
  if (contestant.name == "online") return predict::make_online_predictor();
  if (contestant.name == "prior") return predict::make_prior_predictor();
  if (contestant.name == "route") return make_route_baseline();
  if (contestant.name == "prompt-length") return make_prompt_length_baseline();
  if (contestant.name == "global") return make_global_baseline();
  if (contestant.name == "max-tokens") return make_max_tokens_baseline();
  if (contestant.name == "prompt-oracle") return make_prompt_oracle(rows);
  TAILRACE_CHECK(contestant.name == "oracle");
  return make_oracle(rows);
}

}  // namespace tailrace::evaluate
