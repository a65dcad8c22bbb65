#include "tailrace/core/words.h"

#include <algorithm>
#include <utility>

namespace tailrace::core {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, change}));
    }
  }
  return row.back();
}

std::optional<std::string_view> nearest_word(std::string_view typed,
                                             const std::vector<std::string_view>& known) {
  constexpr std::size_t kTypedMax = 64;  // the rest of a longer one cannot bring it nearer
  const std::string_view compared = typed.substr(0, kTypedMax);
  std::optional<std::string_view> best;
  std::size_t least = std::max<std::size_t>(2, compared.size() / 3) + 1;
  for (const std::string_view word : known) {
    const std::size_t distance = edit_distance(compared, word);
    if (distance >= least) continue;
    least = distance;
    best = word;
  }
  return best;
}

}  // namespace tailrace::core
