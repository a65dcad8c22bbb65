#include "tailrace/evaluate/leave_one_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tailrace/evaluate/scores.h"

namespace tailrace::evaluate {
namespace {

constexpr int kResamples = 2000;
constexpr double kLevel = 0.95;

using Indices = std::vector<std::size_t>;

double said_median(predict::Predictor& predictor, const Row& row) {
  const auto said = predictor.predict(std::span(&row.features, 1)).front();
  return std::min(said.law.median(), static_cast<double>(row.features.cap.count()));
}

/// Predicts, then learns, each row; tau of what it said.
double ordered(predict::Predictor& predictor, std::span<const Row> rows,
               std::span<const std::size_t> which) {
  std::vector<double> said;
  std::vector<double> lengths;
  for (const std::size_t i : which) {
    said.push_back(said_median(predictor, rows[i]));
    lengths.push_back(static_cast<double>(rows[i].truth.length.count()));
    predictor.observe(rows[i].features, rows[i].truth);
  }
  return order_agreement(said, lengths).tau_b;
}

void learn(predict::Predictor& predictor, std::span<const Row> rows,
           std::span<const std::size_t> which) {
  for (const std::size_t i : which) predictor.observe(rows[i].features, rows[i].truth);
}

Indices rows_of_others(std::span<const Row> rows, std::string_view model, std::size_t limit,
                       Rng rng) {
  Indices others;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].features.model != model) others.push_back(i);
  }
  if (limit == 0 || others.size() <= limit) return others;
  // A sample without replacement, then back into the order of arrival.
  for (std::size_t i = 0; i < limit; ++i) {
    std::swap(others[i], others[i + rng.below(others.size() - i)]);
  }
  others.resize(limit);
  std::sort(others.begin(), others.end());
  return others;
}

Result<LeftOut> leave_out(std::span<const Row> rows, const std::string& model, const Indices& own,
                          const MakePredictor& make, const LeaveOneOutOptions& options) {
  const auto predictor = make();
  learn(*predictor, rows,
        rows_of_others(rows, model, options.other_rows, Rng(options.seed).fork(model)));
  const std::string image = predictor->save();

  const std::span<const std::size_t> all(own);
  const auto before = all.first(options.after);
  const auto window = all.subspan(options.after, options.window);
  const auto rest = all.subspan(options.after + options.window);
  LeftOut left;
  left.model = model;
  left.rows = own.size();
  learn(*predictor, rows, before);
  left.tau_early = ordered(*predictor, rows, window);
  learn(*predictor, rows, rest.first(rest.size() - options.window));
  left.tau_last = ordered(*predictor, rows, rest.last(options.window));

  const auto informed = make();
  if (auto loaded = informed->load(image); !loaded) return fail(loaded.error());
  learn(*informed, rows, before);
  learn(*informed, rows, rest);
  left.tau_final = ordered(*informed, rows, window);
  return left;
}

template <class Final>
std::optional<report::Interval> mean_share(std::span<const LeftOut> models, Final final_of,
                                           Rng rng) {
  std::vector<double> shares;
  for (const LeftOut& m : models) {
    if (final_of(m) >= kOrderedTau) shares.push_back(m.tau_early / final_of(m));
  }
  const std::vector<double> ones(shares.size(), 1.0);
  return report::paired_ratio_of_means(shares, ones, kLevel, kResamples, rng);
}

}  // namespace

Result<LeaveOneOut> leave_one_model_out(std::span<const Row> rows, const MakePredictor& make,
                                        const LeaveOneOutOptions& options) {
  std::map<std::string, Indices> by_model;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const bool cut_early = row.truth.censored && row.truth.length < row.features.cap;
    if (!cut_early) by_model[row.features.model].push_back(i);
  }
  const std::size_t needed = options.after + 2 * options.window;
  std::vector<const std::pair<const std::string, Indices>*> eligible;
  for (const auto& entry : by_model) {
    if (entry.second.size() >= needed) eligible.push_back(&entry);
  }
  if (eligible.size() < 2) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("leave-one-model-out: {} the {} rows that it takes; give rows of at "
                            "least two such models",
                            eligible.size() == 1 ? "1 model has" : "no model has", needed));
  }
  Rng rng = Rng(options.seed).fork("left out");
  for (std::size_t i = eligible.size(); i > 1; --i) {
    std::swap(eligible[i - 1], eligible[rng.below(i)]);
  }
  eligible.resize(std::min(eligible.size(), std::max<std::size_t>(2, options.models)));

  LeaveOneOut result;
  result.predictor = make()->name();
  result.after = options.after;
  result.window = options.window;
  for (std::size_t m = 0; m < eligible.size(); ++m) {
    if (options.progress) options.progress(m, eligible.size());
    auto left = leave_out(rows, eligible[m]->first, eligible[m]->second, make, options);
    if (!left) return fail(left.error());
    result.models.push_back(std::move(*left));
  }
  const Rng boot = Rng(options.seed).fork("bootstrap");
  result.share_of_final =
      mean_share(result.models, [](const LeftOut& m) { return m.tau_final; }, boot);
  result.share_of_last =
      mean_share(result.models, [](const LeftOut& m) { return m.tau_last; }, boot);
  return result;
}

}  // namespace tailrace::evaluate
