#include "predict/prompt_memory.h"

#include <algorithm>
#include <cmath>

namespace tailrace::predict {
namespace {

constexpr std::size_t kWays = 8;
constexpr std::uint16_t kMaxCredit = 30;
// Half-width of an answer's spread, relative to its length, at one answer.
constexpr double kWide = 0.3, kLeastWidth = 0.05;
static_assert(kBins <= 256);

}  // namespace

bool PromptMemory::law(std::uint64_t key, const Bins& parent, float strength, Bins& law) const {
  const std::size_t first = (key % (kPrompts / kWays)) * kWays;
  const auto from = prompts_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto at = std::find_if(from, from + kWays, [key](const Prompt& p) { return p.key == key; });
  if (at == from + kWays || at->size == 0) return false;
  std::array<std::uint8_t, kBins> times{};
  for (std::size_t i = 0; i < at->size; ++i) ++times[at->bins[i]];
  const auto n = static_cast<float>(at->size);
  const double width = std::max(kLeastWidth, kWide / std::sqrt(std::sqrt(static_cast<double>(n))));
  Bins count{};
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    if (times[bin] == 0) continue;
    const Spread s = spread(middle_of(bin), width);
    for (std::size_t j = 0; j < s.count; ++j) {
      count[s.first + j] += static_cast<float>(times[bin]) * s.part[j];
    }
  }
  const float scale = 1 / (n + strength);
  for (std::size_t i = 0; i < kBins; ++i) law[i] = (count[i] + strength * parent[i]) * scale;
  return true;
}

void PromptMemory::add(std::uint64_t key, std::size_t bin) {
  const std::size_t first = (key % (kPrompts / kWays)) * kWays;
  Prompt* prompt = nullptr;
  Prompt* poorest = &prompts_[first];
  for (std::size_t i = first; i < first + kWays; ++i) {
    if (prompts_[i].key == key) prompt = &prompts_[i];
    if (prompts_[i].credit < poorest->credit) poorest = &prompts_[i];
  }
  if (prompt == nullptr) {
    if (poorest->credit > 0) --poorest->credit;
    if (poorest->credit > 0) return;
    *poorest = Prompt{};
    poorest->key = key;
    prompt = poorest;
  }
  prompt->credit =
      std::min<std::uint16_t>(static_cast<std::uint16_t>(prompt->credit + 1), kMaxCredit);
  prompt->bins[prompt->next] = static_cast<std::uint8_t>(bin);
  prompt->next = static_cast<std::uint8_t>((prompt->next + 1U) % kAnswers);
  prompt->size = static_cast<std::uint8_t>(std::min<std::size_t>(prompt->size + 1U, kAnswers));
}

void PromptMemory::write(ImageWriter& out) const {
  for (std::size_t i = 0; i < kPrompts; ++i) {
    const Prompt& prompt = prompts_[i];
    if (prompt.key == 0) continue;
    out.u32(static_cast<std::uint32_t>(i));
    out.u64(prompt.key);
    out.u32(prompt.credit);
    out.u8(prompt.size);
    out.u8(prompt.next);
    for (std::size_t j = 0; j < prompt.size; ++j) out.u8(prompt.bins[j]);
  }
  out.u32(kPrompts);  // end mark: no such place
}

bool PromptMemory::read(ImageReader& in) {
  PromptMemory loaded;
  std::uint32_t least = 0;
  while (in.ok()) {
    const std::uint32_t place = in.u32();
    if (place == kPrompts) break;
    if (place < least || place > kPrompts) return false;
    least = place + 1;
    Prompt& prompt = loaded.prompts_[place];
    prompt.key = in.u64();
    prompt.credit = static_cast<std::uint16_t>(std::min<std::uint32_t>(in.u32(), kMaxCredit));
    prompt.size = in.u8();
    prompt.next = in.u8();
    if (prompt.key == 0 || prompt.size > kAnswers || prompt.next >= kAnswers) return false;
    for (std::size_t j = 0; j < prompt.size; ++j) {
      prompt.bins[j] = in.u8();
      if (prompt.bins[j] >= kBins) return false;
    }
  }
  if (!in.ok()) return false;
  *this = std::move(loaded);
  return true;
}

}  // namespace tailrace::predict
