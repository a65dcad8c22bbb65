// Do one tenant's lies spoil what other tenants are told?
//
// A second tenant joins the stream with requests that look like the honest ones (same models,
// mostly the same texts) and answers that are wrong or malformed in one way. Only the honest
// tenants' rows are scored, with and without the attack.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tailrace/evaluate/rows.h"

namespace tailrace::evaluate {

struct Poison {
  std::string_view name;
  std::string_view about;
};

/// "aborts", "constant", "one-token", "at-cap", "empty-prompts", "huge-prompts", "random-bytes".
std::span<const Poison> poisons();
/// Nothing for an unknown name.
const Poison* find_poison(std::string_view name);

inline constexpr std::string_view kAttacker = "attacker";

bool is_honest(const Row& row);

/// The same rows, each with a tenant's name.
std::vector<Row> honest_rows(std::span<const Row> rows);

/// The honest rows in their order with the attacker's mixed in, which make up about `share` of all
/// (0 < share < 1). Same seed, same stream.
std::vector<Row> poisoned(std::span<const Row> rows, const Poison& poison, double share,
                          std::uint64_t seed);

}  // namespace tailrace::evaluate
