#include "tailrace/evaluate/poison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>

#include "tailrace/core/check.h"
#include "tailrace/predict/prompt.h"

namespace tailrace::evaluate {
namespace {

constexpr std::size_t kHugeBytes = 1'000'000;
constexpr std::size_t kNoiseBytes = 2048;
constexpr std::int64_t kConstantLength = 777;

using Spoil = void (*)(Row&, const Row& other, Rng&);

/// "At least so many tokens", a number out of thin air.
void lie_by_aborting(Row& row, const Row&, Rng& rng) {
  const double most = std::log(static_cast<double>(row.features.cap.count()));
  const auto length = static_cast<std::int64_t>(std::exp(rng.uniform() * most));
  row.truth = {Tokens(std::max<std::int64_t>(1, length)), true};
}

void answer_the_same(Row& row, const Row&, Rng&) {
  row.truth.length = std::min(Tokens(kConstantLength), row.features.cap);
  row.truth.censored = row.truth.length == row.features.cap;
}

void answer_one_token(Row& row, const Row&, Rng&) {
  row.truth = {Tokens(1), row.features.cap == Tokens(1)};
}

void answer_to_the_cap(Row& row, const Row&, Rng&) {
  row.truth = {row.features.cap, true};
}

/// The length of another request, so that it says nothing about this one.
void take_length(Row& row, const Row& other) {
  row.truth.length = std::min(other.truth.length, row.features.cap);
  row.truth.censored = row.truth.length == row.features.cap || other.truth.censored;
}

void replace_prompt(Row& row, std::span<const std::string_view> prompt) {
  std::int64_t tokens = 0;
  for (const auto text : prompt) tokens += predict::tokens_of_text(text).count();
  predict::set_prompt_text(prompt, row.features);
  row.features.prompt_tokens = Tokens(tokens);
}

std::string words(std::size_t bytes, Rng& rng) {
  std::string text;
  while (text.size() < bytes) {
    for (std::uint64_t bits = rng.next_u64(); bits != 0; bits >>= 5) {
      text.push_back(static_cast<char>('a' + bits % 26));
    }
    text.push_back(' ');
  }
  return text;
}

void ask_nothing(Row& row, const Row& other, Rng&) {
  replace_prompt(row, std::array<std::string_view, 1>{""});
  take_length(row, other);
}

/// Each with ends of its own; what lies between costs nothing but its size.
void ask_at_length(Row& row, const Row& other, Rng& rng) {
  static const std::string middle(kHugeBytes, 'x');
  const std::string head = words(predict::kPromptEndBytes, rng);
  const std::string tail = words(predict::kPromptEndBytes, rng);
  replace_prompt(row, std::array<std::string_view, 3>{head, middle, tail});
  take_length(row, other);
}

void ask_noise(Row& row, const Row& other, Rng& rng) {
  std::string prompt;
  for (std::size_t i = 0; i < kNoiseBytes; ++i) {
    prompt.push_back(static_cast<char>(rng.below(256)));
  }
  replace_prompt(row, std::array<std::string_view, 1>{prompt});
  take_length(row, other);
}

constexpr Poison kPoisons[] = {
    {"aborts", "requests aborted at random lengths"},
    {"constant", "answers of 777 tokens, whatever is asked"},
    {"one-token", "answers of one token"},
    {"at-cap", "answers that all run into their limit"},
    {"empty-prompts", "prompts without a byte, lengths of other requests"},
    {"huge-prompts", "prompts of a megabyte, lengths of other requests"},
    {"random-bytes", "prompts of random bytes, lengths of other requests"},
};
constexpr Spoil kSpoils[] = {lie_by_aborting, answer_the_same, answer_one_token, answer_to_the_cap,
                             ask_nothing,     ask_at_length,   ask_noise};
static_assert(std::size(kPoisons) == std::size(kSpoils));

}  // namespace

std::span<const Poison> poisons() {
  return kPoisons;
}

const Poison* find_poison(std::string_view name) {
  const auto* at = std::find_if(std::begin(kPoisons), std::end(kPoisons),
                                [&](const Poison& p) { return p.name == name; });
  return at == std::end(kPoisons) ? nullptr : at;
}

bool is_honest(const Row& row) {
  return row.features.tenant != kAttacker;
}

std::vector<Row> honest_rows(std::span<const Row> rows) {
  std::vector<Row> honest(rows.begin(), rows.end());
  for (Row& row : honest) {
    if (row.features.tenant.empty() || !is_honest(row)) row.features.tenant = "honest";
  }
  return honest;
}

std::vector<Row> poisoned(std::span<const Row> rows, const Poison& poison, double share,
                          std::uint64_t seed) {
  TAILRACE_CHECK(share > 0 && share < 1);
  const Spoil spoil = kSpoils[find_poison(poison.name) - std::begin(kPoisons)];
  Rng rng = Rng(seed).fork(poison.name);
  std::vector<Row> stream;
  std::vector<Row> honest = honest_rows(rows);
  for (Row& row : honest) {
    while (rng.uniform() < share) {
      Row attack = rows[rng.below(rows.size())];
      attack.features.tenant = kAttacker;
      spoil(attack, rows[rng.below(rows.size())], rng);
      stream.push_back(std::move(attack));
    }
    stream.push_back(std::move(row));
  }
  return stream;
}

}  // namespace tailrace::evaluate
