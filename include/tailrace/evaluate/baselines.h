// What must a predictor beat, and what is the best that anyone could do?
//
// Baselines behind the Predictor interface. The histograms learn a hazard for each of some 130
// log-spaced length bins, so that cut answers count for what they tell and a cap becomes an atom;
// each group's histogram is shrunk towards the one of all. The oracles are told the truth: they
// bound what is possible. All are deterministic and bounded in memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tailrace/evaluate/rows.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::evaluate {

/// One law for every request.
std::unique_ptr<predict::Predictor> make_global_baseline();
/// One law per bucket of prompt length (five a decade).
std::unique_ptr<predict::Predictor> make_prompt_length_baseline();
/// One law per model, route and system prompt.
std::unique_ptr<predict::Predictor> make_route_baseline();
/// Every answer as long as its limit allows: an order, hardly a law.
std::unique_ptr<predict::Predictor> make_max_tokens_baseline();
/// Knows the length of each row before it is generated. Rows are asked and observed in the order
/// of `rows`, which must outlive it.
std::unique_ptr<predict::Predictor> make_oracle(std::span<const Row> rows);
/// Knows the other answers to the same prompt by the same model (all of them, later ones too): the
/// bound for anyone who sees the prompt alone. As make_oracle.
std::unique_ptr<predict::Predictor> make_prompt_oracle(std::span<const Row> rows);

struct Contestant {
  std::string_view name;
  std::string_view about;
  bool order_only = false;  ///< its laws are no serious statement; only the order is judged
  bool is_told = false;     ///< an oracle
};

/// Every predictor by name, in the order of the report.
std::span<const Contestant> contestants();
/// Nothing for an unknown name.
const Contestant* find_contestant(std::string_view name);
/// A fresh one. `rows` are what an oracle is told; others do not look.
std::unique_ptr<predict::Predictor> make_contestant(const Contestant& contestant,
                                                    std::span<const Row> rows);

}  // namespace tailrace::evaluate
