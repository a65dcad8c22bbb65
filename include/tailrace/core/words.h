// Which word did somebody mean who misspelt one?
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tailrace::core {

/// Levenshtein's: insertions, deletions and changes between two short texts; O(|a|·|b|).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Which of `known` was most likely meant; nothing if none is near.
std::optional<std::string_view> nearest_word(std::string_view typed,
                                             const std::vector<std::string_view>& known);

}  // namespace tailrace::core
