#include "tailrace/evaluate/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "tailrace/core/text.h"
#include "tailrace/evaluate/baselines.h"

namespace tailrace::evaluate {
namespace {

constexpr double kPoisonShareMax = 0.9;

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

template <class Named>
std::string names_of(std::span<const Named> all) {
  std::string names;
  for (const Named& one : all) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  return names;
}

/// What the options name, found.
struct Plan {
  std::vector<const Contestant*> contestants;
  std::vector<const Contestant*> learners;  ///< for the experiments
  std::vector<const Poison*> poisons;
};

Result<Plan> plan_of(const StudyOptions& options) {
  Plan plan;
  for (const auto& name : options.predictors) {
    const Contestant* found = find_contestant(name);
    if (found == nullptr) {
      return bad(fmt::format("predictor: there is no {}; give one of {}", core::quoted(name),
                             names_of(contestants())));
    }
    plan.contestants.push_back(found);
    if (!found->is_told && !found->order_only) plan.learners.push_back(found);
  }
  if (options.predictors.empty()) {
    for (const Contestant& contestant : contestants()) plan.contestants.push_back(&contestant);
    plan.learners = {find_contestant("online")};
  }
  for (const auto& name : options.poisons) {
    const Poison* found = find_poison(name);
    if (found != nullptr) {
      plan.poisons.push_back(found);
    } else if (name == "all") {
      for (const Poison& poison : poisons()) plan.poisons.push_back(&poison);
    } else {
      return bad(fmt::format("poison: there is no {}; give all, or one of {}", core::quoted(name),
                             names_of(poisons())));
    }
  }
  if (!(options.poison_share > 0 && options.poison_share <= kPoisonShareMax)) {
    return bad(fmt::format("poison-share is {}; it must be above 0 and at most {}",
                           options.poison_share, kPoisonShareMax));
  }
  const bool experiments = options.leave_one_out || !plan.poisons.empty();
  if (experiments && plan.learners.empty()) {
    return bad("predictor: none of those named learns; name one that does, such as online");
  }
  return plan;
}

Result<std::vector<RowSet>> read_sets(const StudyOptions& options) {
  std::vector<RowSet> sets;
  for (const auto& input : options.inputs) {
    auto set = read_rows(input, options.read);
    if (!set) return fail(set.error());
    if (options.together && !sets.empty()) {
      RowSet& all = sets.front();
      if (all.rows.size() + set->rows.size() > kRowsMax) {
        return fail(ErrorCode::kResourceExhausted,
                    fmt::format("more than {} rows together; evaluate fewer", kRowsMax));
      }
      all.name += " + " + set->name;
      std::move(set->rows.begin(), set->rows.end(), std::back_inserter(all.rows));
    } else {
      sets.push_back(std::move(*set));
    }
  }
  for (RowSet& set : sets) {
    if (!options.in_order) shuffle(set.rows, Rng(options.seed).fork("order"));
    keep_per_group(set.rows, options.answers);
    if (set.rows.size() <= options.skip) {
      return bad(fmt::format("skip is {} but {} has {} rows; skip fewer", options.skip, set.name,
                             set.rows.size()));
    }
  }
  return sets;
}

class SetStudy {
 public:
  SetStudy(const StudyOptions& options, const Plan& plan, const RowSet& set)
      : options_(options), plan_(plan), set_(set) {}

  Result<SetReport> run() {
    describe();
    for (const Contestant* contestant : plan_.contestants) evaluate(*contestant);
    if (options_.leave_one_out) {
      for (const Contestant* learner : plan_.learners) {
        if (auto left = leave_out(*learner); !left) return fail(left.error());
      }
    }
    if (!plan_.poisons.empty()) {
      for (const Contestant* learner : plan_.learners) attack(*learner);
    }
    return std::move(report_);
  }

 private:
  void describe() {
    std::unordered_set<std::uint64_t> groups;
    std::unordered_set<std::string> models;
    for (const Row& row : set_.rows) {
      groups.insert(row.group);
      models.insert(row.features.model);
      report_.cut += row.truth.censored ? 1 : 0;
    }
    report_.set = set_.name;
    report_.rows = set_.rows.size();
    report_.prompts = groups.size();
    report_.models = models.size();
  }

  PrequentialOptions how(std::string what, std::size_t of) const {
    PrequentialOptions how;
    how.seed = options_.seed;
    how.skip = options_.skip;
    if (options_.progress) {
      how.progress = [this, what = std::move(what), of](std::size_t row) {
        options_.progress(what, row, of);
      };
    }
    return how;
  }

  void evaluate(const Contestant& contestant) {
    // Where no prompt was answered twice, its other answers tell nothing.
    if (contestant.name == "prompt-oracle" && report_.prompts == report_.rows) return;
    const bool learns = !contestant.is_told && !contestant.order_only;
    const double heap_before = options_.heap_bytes ? options_.heap_bytes() : 0;
    const auto predictor = make_contestant(contestant, set_.rows);
    auto options = how(fmt::format("{}: {}", set_.name, contestant.name), set_.rows.size());
    if (learns) options.cpu_seconds = options_.cpu_seconds;
    Evaluation evaluation = prequential(*predictor, set_.rows, options);
    if (evaluation.cost && options_.heap_bytes) {
      evaluation.cost->heap_bytes = std::max(0.0, options_.heap_bytes() - heap_before);
    }
    evaluation.order_only = contestant.order_only;
    // Who knows the draw says nothing of the law it was drawn from.
    if (contestant.name == "oracle") evaluation.repeats.reset();
    report_.evaluations.push_back(std::move(evaluation));
  }

  Result<void> leave_out(const Contestant& learner) {
    LeaveOneOutOptions options = *options_.leave_one_out;
    options.seed = options_.seed;
    if (options_.progress) {
      options.progress = [&](std::size_t done, std::size_t of) {
        options_.progress(fmt::format("{}: {}, model left out", set_.name, learner.name), done, of);
      };
    }
    auto left =
        leave_one_model_out(set_.rows, [&] { return make_contestant(learner, {}); }, options);
    if (!left) return fail(left.error().with_context(set_.name));
    report_.left_out.push_back(std::move(*left));
    return {};
  }

  void attack(const Contestant& learner) {
    const Scores without = honest_scores(learner, "no attack", honest_rows(set_.rows));
    for (const Poison* poison : plan_.poisons) {
      const auto stream = poisoned(set_.rows, *poison, options_.poison_share, options_.seed);
      PoisonResult result;
      result.poison = poison->name;
      result.about = poison->about;
      result.predictor = learner.name;
      result.share = 1 - static_cast<double>(set_.rows.size()) / static_cast<double>(stream.size());
      result.without = without;
      result.with = honest_scores(learner, poison->name, stream);
      report_.poisons.push_back(std::move(result));
    }
  }

  Scores honest_scores(const Contestant& learner, std::string_view under,
                       std::span<const Row> rows) const {
    auto options = how(fmt::format("{}: {} under {}", set_.name, learner.name, under), rows.size());
    options.scored = is_honest;
    const auto predictor = make_contestant(learner, {});
    return prequential(*predictor, rows, options).scores;
  }

  const StudyOptions& options_;
  const Plan& plan_;
  const RowSet& set_;
  SetReport report_;
};

}  // namespace

Result<std::vector<SetReport>> run_study(const StudyOptions& options) {
  const auto plan = plan_of(options);
  if (!plan) return fail(plan.error());
  const auto sets = read_sets(options);
  if (!sets) return fail(sets.error());
  std::vector<SetReport> reports;
  for (const RowSet& set : *sets) {
    auto report = SetStudy(options, *plan, set).run();
    if (!report) return fail(report.error());
    reports.push_back(std::move(*report));
  }
  return reports;
}

}  // namespace tailrace::evaluate
