// Whose pod is this exporter, and if nobody's, which label is to blame?
//
// An exporter belongs to a variant by the label llm_d_ai_variant, else by its pod's name, else by
// its instance's address; namespace and model must not say otherwise. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "observe/exporters.h"

namespace tailrace::observe {

/// Where an exporter belongs, as far as its labels go.
struct Match {
  std::size_t variant = 0;         ///< index of the expected ones
  std::optional<std::size_t> pod;  ///< index of its expected pods; empty: the variant's label only
  /// It would belong there if this label did not say something else.
  std::string blamed_label;
  std::vector<std::string> seen, wanted;  ///< values of that label

  bool matched() const { return blamed_label.empty(); }
};

/// Empty where no label points at any variant.
std::optional<Match> match(const Exporter& exporter, std::span<const ExpectedVariant> expected);

/// Does a model of that name belong to the variant: its own, an alias, an adapter?
bool serves(const ExpectedVariant& variant, std::string_view model);

/// Exporters of one pod and port whose address changed: only that of the newest is the pod's now.
void drop_moved(std::vector<Exporter>& exporters);

/// A pod's name without the suffix that some pickers give it: "llama-0-rank-1" is "llama-0".
std::string_view without_rank(std::string_view pod);

}  // namespace tailrace::observe
