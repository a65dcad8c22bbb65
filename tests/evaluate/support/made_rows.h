// Which rows do the tests of the evaluation use?
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/evaluate/rows.h"
#include "tailrace/predict/prompt.h"

namespace tailrace::evaluate::testing {

inline constexpr std::int64_t kCap = 4096;

inline Row make_row(std::int64_t length, std::string model = "m", std::string_view prompt = "why",
                    std::int64_t cap = kCap) {
  Row row;
  row.features.model = std::move(model);
  row.features.route = "chat";
  row.features.cap = Tokens(cap);
  predict::set_prompt_text(std::span(&prompt, 1), row.features);
  row.features.prompt_tokens = predict::tokens_of_text(prompt);
  row.truth.length = Tokens(std::min(length, cap));
  row.truth.censored = length >= cap;
  row.group = stable_hash(prompt, stable_hash(row.features.model));
  return row;
}

/// Answers whose median is `median` tokens, log-normal with `sigma`.
inline std::int64_t drawn_length(double median, double sigma, Rng& rng) {
  return std::max<std::int64_t>(1,
                                std::llround(std::ceil(median * std::exp(sigma * rng.normal()))));
}

/// Requests to `models` models for essays (about 400 tokens) or single words (about 10): the prompt
/// tells which. Model m's answers are longer by m per cent.
inline std::vector<Row> essays_and_words(std::size_t count, std::size_t models,
                                         std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t model = rng.below(models);
    const bool essay = rng.below(2) == 0;
    const double scale = 1 + 0.01 * static_cast<double>(model);
    const std::string about = std::to_string(rng.below(1000));
    rows.push_back(make_row(
        drawn_length(scale * (essay ? 400 : 10), 0.4, rng), "model-" + std::to_string(model),
        essay ? "write a long essay about number " + about : "answer in a word: " + about));
  }
  return rows;
}

}  // namespace tailrace::evaluate::testing
