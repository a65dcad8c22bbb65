#include "predict/request_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <string_view>

#include "predict/hash.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr std::size_t kTextBytes = 512;  // of each end; longer input is cut
constexpr std::size_t kHeadWords = 72;
constexpr std::size_t kTailWords = 40;
constexpr std::size_t kWordBytes = 24;  // of a longer run only these count

// What a feature is about; part of its hash, so that equal texts in different roles stay apart. The
// numbers are part of the saved image: append, never renumber.
enum class Kind : std::uint64_t {
  kBias = 1,
  kModel,
  kTenant,
  kSystem,
  kRoute,
  kFormat,
  kToolChoice,
  kTools,
  kTurns,
  kCap,
  kTemperature,
  kWord,
  kPair,
  kOpening1,
  kOpening2,
  kOpening3,
  kClosing1,
  kClosing2,
  kPromptTokens,
  kShape,
  kModelPromptTokens,
  kModelOpening,
  kSystemOpening,
  kNumber,
  kEffort,
  kPromptTokensSlope,
  kModelSlope,
  kMinTokens,
  kStops,
};

std::uint64_t of(Kind kind, std::uint64_t what = 0) {
  return combine(static_cast<std::uint64_t>(kind), what);
}

class Collector {
 public:
  explicit Collector(FeatureList& out) : out_(out) { out_.clear(); }

  void add(std::uint64_t hash, double value = 1) {
    if (out_.size() < kMaxFeatures) out_.push_back({hash, static_cast<float>(value)});
  }

  /// Sorted, and each hash once: repeating a word must not make it count twice.
  void finish() {
    std::sort(out_.begin(), out_.end(), [](const Feature& a, const Feature& b) {
      return a.hash != b.hash ? a.hash < b.hash : a.value > b.value;
    });
    const auto last = std::unique(out_.begin(), out_.end(), [](const Feature& a, const Feature& b) {
      return a.hash == b.hash;
    });
    out_.erase(last, out_.end());
  }

 private:
  FeatureList& out_;
};

/// A count or amount as one of a few dozen classes, finer where small.
std::uint64_t bucket(double amount, double per_e_fold = 2.0) {
  const double x = std::isfinite(amount) ? std::clamp(amount, 0.0, 1e9) : 0.0;
  return static_cast<std::uint64_t>(std::llround(std::log1p(x) * per_e_fold));
}

// ---- text ---------------------------------------------------------------------------------------

bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(unsigned char c) {
  // Bytes of two-byte UTF-8 letters (Latin with accents, Greek, Cyrillic, Arabic, …) join words;
  // the continuation bytes of longer ones are handled by their lead byte.
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0x80 && c < 0xE0);
}
unsigned char lower(unsigned char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c + 32) : c;
}

/// Numbers matter by size ("in 500 words"), not by digits.
std::uint64_t number_hash(std::string_view digits) {
  double value = 0;
  for (const char c : digits.substr(0, 9)) value = value * 10 + (c - '0');
  return of(Kind::kNumber, bucket(value, 1.5));
}

std::uint64_t word_hash(std::string_view word) {
  std::array<char, kWordBytes> folded;
  const std::size_t size = std::min(word.size(), folded.size());
  for (std::size_t i = 0; i < size; ++i) {
    folded[i] = static_cast<char>(lower(static_cast<unsigned char>(word[i])));
  }
  return stable_hash(std::string_view(folded.data(), size));
}

/// The hashes of a text's words in order. Scripts written without spaces give one per character, so
/// that pairs of them stand for words.
template <std::size_t N>
std::span<const std::uint64_t> hash_words(std::string_view text,
                                          std::array<std::uint64_t, N>& out) {
  std::size_t count = 0;
  std::size_t i = 0;
  while (i < text.size() && count < N) {
    const auto c = static_cast<unsigned char>(text[i]);
    std::size_t end = i + 1;
    if (c >= 0xE0) {
      const std::size_t want = c >= 0xF0 ? 4 : 3;
      while (end < text.size() && end < i + want &&
             (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
        ++end;
      }
      out[count++] = stable_hash(text.substr(i, end - i));
    } else if (is_digit(c)) {
      while (end < text.size() && is_digit(static_cast<unsigned char>(text[end]))) ++end;
      out[count++] = number_hash(text.substr(i, end - i));
    } else if (is_letter(c)) {
      while (end < text.size() && is_letter(static_cast<unsigned char>(text[end]))) ++end;
      out[count++] = word_hash(text.substr(i, end - i));
    }
    i = end;
  }
  return {out.data(), count};
}

/// The last `kTailWords` of a text, from a word boundary on.
std::string_view last_words(std::string_view text) {
  std::size_t words = 0;
  std::size_t start = text.size();
  while (start > 0 && words < kTailWords) {
    --start;
    if (text[start] == ' ' || text[start] == '\n') ++words;
  }
  return text.substr(start);
}

// Kinds of bytes whose number says something about the task: lines, questions, lists, code, …
constexpr std::string_view kMarks[] = {"\n", "?", "!", ":", ",", ".", "\"'", "{};()=<>`_"};
constexpr std::size_t kDigit = std::size(kMarks), kCapital = kDigit + 1, kWide = kDigit + 2,
                      kOther = kDigit + 3, kByteKinds = kDigit + 4;

constexpr std::array<std::uint8_t, 256> classify_bytes() {
  std::array<std::uint8_t, 256> kinds{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    kinds[byte] = byte >= 0x80                 ? kWide
                  : byte >= 'A' && byte <= 'Z' ? kCapital
                  : byte >= '0' && byte <= '9' ? kDigit
                                               : kOther;
  }
  for (std::size_t kind = 0; kind < std::size(kMarks); ++kind) {
    for (const char c : kMarks[kind]) {
      kinds[static_cast<unsigned char>(c)] = static_cast<std::uint8_t>(kind);
    }
  }
  return kinds;
}
constexpr auto kByteKind = classify_bytes();

std::uint64_t closing_mark(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\n' || text[end - 1] == '\r')) --end;
  if (end == 0) return 0;
  const auto c = static_cast<unsigned char>(text[end - 1]);
  if (c >= 0x80) return 2;
  return is_letter(c) || is_digit(c) ? 1 : c;
}

void add_shape(std::string_view head, std::string_view tail, Collector& features) {
  std::array<int, kByteKinds> counts{};
  for (const char c : head) ++counts[kByteKind[static_cast<unsigned char>(c)]];
  std::uint64_t index = 0;
  for (std::size_t kind = 0; kind < kOther; ++kind) {
    features.add(of(Kind::kShape, combine(index++, bucket(counts[kind], 1.5))));
  }
  features.add(of(Kind::kShape, combine(index++, closing_mark(tail))));
  const bool opens_with_letter = !head.empty() && is_letter(static_cast<unsigned char>(head[0]));
  features.add(of(Kind::kShape, combine(index, opens_with_letter ? 1 : 2)));
}

std::uint64_t opening(std::span<const std::uint64_t> words, std::size_t count) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < count; ++i) hash = combine(hash, words[i]);
  return hash;
}

/// Returns the first word's hash, for the crosses with categories.
std::uint64_t add_words(std::string_view head, std::string_view tail, Collector& features) {
  std::array<std::uint64_t, kHeadWords> head_buffer;
  std::array<std::uint64_t, kTextBytes> tail_buffer;  // a word has at least one byte
  const auto words = hash_words(head, head_buffer);
  const auto at_end = hash_words(last_words(tail), tail_buffer);
  const auto last = at_end.last(std::min(at_end.size(), kTailWords));
  // Long prompts have many words: each one then says less. Between a sum (0) and a mean (1).
  const double value = std::pow(static_cast<double>(words.size() + 1), -0.25);
  constexpr Kind openings[] = {Kind::kOpening1, Kind::kOpening2, Kind::kOpening3};
  for (std::size_t n = 1; n <= 3 && n <= words.size(); ++n) {
    features.add(of(openings[n - 1], opening(words, n)));
  }
  constexpr Kind closings[] = {Kind::kClosing1, Kind::kClosing2};
  for (std::size_t n = 1; n <= 2 && n <= last.size(); ++n) {
    features.add(of(closings[n - 1], opening(last.subspan(last.size() - n), n)));
  }
  for (const std::uint64_t word : words) features.add(of(Kind::kWord, word), value);
  for (const std::uint64_t word : last) features.add(of(Kind::kWord, word), value);
  for (std::size_t i = 1; i < words.size(); ++i) {
    features.add(of(Kind::kPair, combine(words[i - 1], words[i])), value);
  }
  for (std::size_t i = 1; i < last.size(); ++i) {
    features.add(of(Kind::kPair, combine(last[i - 1], last[i])), value);
  }
  return words.empty() ? 0 : words[0];
}

}  // namespace

void extract_features(const RequestFeatures& request, FeatureList& out) {
  Collector features(out);
  const auto head = std::string_view(request.prompt_head).substr(0, kTextBytes);
  std::string_view tail =
      request.prompt_tail.empty() ? head : std::string_view(request.prompt_tail);
  if (tail.size() > kTextBytes) tail = tail.substr(tail.size() - kTextBytes);

  const std::uint64_t model = stable_hash(request.model);
  const double prompt_tokens = static_cast<double>(
      std::clamp<std::int64_t>(request.prompt_tokens.count(), 0, 1'000'000'000));
  const double log_prompt = std::log1p(prompt_tokens);

  features.add(of(Kind::kBias));
  features.add(of(Kind::kModel, model));
  features.add(of(Kind::kTenant, stable_hash(request.tenant)));
  features.add(of(Kind::kSystem, request.system_fingerprint));
  features.add(of(Kind::kRoute, stable_hash(request.route)));
  features.add(of(Kind::kFormat, stable_hash(request.response_format)));
  features.add(of(Kind::kToolChoice, request.tool_choice_forced ? 1 : 0));
  features.add(of(Kind::kTools, bucket(request.tools)));
  features.add(of(Kind::kTurns, bucket(request.turns)));
  if (request.cap_is_explicit) {
    features.add(of(Kind::kCap, bucket(static_cast<double>(request.cap.count()), 3)));
  }
  if (request.min_tokens.count() > 0) {
    features.add(of(Kind::kMinTokens, bucket(static_cast<double>(request.min_tokens.count()))));
  }
  if (request.stop_sequences > 0) features.add(of(Kind::kStops, bucket(request.stop_sequences)));
  if (!request.reasoning_effort.empty()) {
    features.add(of(Kind::kEffort, stable_hash(request.reasoning_effort)));
  }
  if (request.temperature && std::isfinite(*request.temperature)) {
    features.add(of(Kind::kTemperature, bucket(*request.temperature * 10)));
  }
  features.add(of(Kind::kPromptTokens, bucket(prompt_tokens, 3)));
  features.add(of(Kind::kPromptTokensSlope), 0.3 * (log_prompt - 4));
  features.add(of(Kind::kModelSlope, model), 0.3 * (log_prompt - 4));
  features.add(of(Kind::kModelPromptTokens, combine(model, bucket(prompt_tokens, 1.5))));

  add_shape(head, tail, features);
  const std::uint64_t first_word = add_words(head, tail, features);
  features.add(of(Kind::kModelOpening, combine(model, first_word)));
  features.add(of(Kind::kSystemOpening, combine(request.system_fingerprint, first_word)));
  features.finish();
}

}  // namespace tailrace::predict
