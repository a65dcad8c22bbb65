#include "predict/request_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "predict/feature_names.h"
#include "predict/hash.h"
#include "predict/prompt_cues.h"
#include "predict/prompt_words.h"
#include "predict/text_shape.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr std::size_t kTextBytes = 512;  // of each end; longer input is cut
constexpr std::size_t kHeadWords = 72;
constexpr std::size_t kTailWords = 40;
// Long prompts have many words: each one then says less. Between a sum (0) and a mean (1).
constexpr double kWordPower = 0.25;
constexpr std::size_t kOpeningWords = 3;
constexpr std::size_t kStemFrom = 5;  // bytes of a word that has a stem
constexpr std::size_t kModelPieces = 12;
constexpr std::int64_t kTokensMax = 1'000'000'000;

// Kinds whose values are few have a quarter of the table to themselves, so that a flood of invented
// words cannot wear them out.
std::uint64_t place(bool open, std::uint64_t hash) {
  constexpr std::uint64_t kQuarter = std::uint64_t{1} << 62;
  if (!open) return hash % kQuarter;
  return hash < kQuarter ? hash + kQuarter : hash;
}

Feature make_feature(Kind kind, std::uint64_t what, double value) {
  const KindTraits& of = traits(kind);
  return {place(of.open, combine(static_cast<std::uint64_t>(kind) + 1, what)),
          of.scale * static_cast<float>(value), of.part};
}

// Sinks: what is done with each feature as it is read. `name` makes its name for people; only the
// slow one calls it.

class Collector {
 public:
  explicit Collector(FeatureList& out) : out_(out) { out_.clear(); }

  template <class Name>
  void add(Kind kind, std::uint64_t what, double value, const Name&) {
    if (out_.size() < kMaxFeatures) out_.push_back(make_feature(kind, what, value));
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

class Namer {
 public:
  explicit Namer(std::vector<NamedFeature>& out) : out_(out) {}

  template <class Name>
  void add(Kind kind, std::uint64_t what, double value, const Name& name) {
    if (out_.size() < kMaxFeatures) {
      out_.push_back({make_feature(kind, what, value), kind, std::string(name())});
    }
  }

 private:
  std::vector<NamedFeature>& out_;
};

auto named(std::string_view name) {
  return [name] { return name; };
}

double log_tokens(Tokens tokens) {
  return std::log1p(static_cast<double>(std::clamp<std::int64_t>(tokens.count(), 0, kTokensMax)));
}

/// A tenant's own: another's system prompt of the same text is another.
std::uint64_t system_of(const RequestFeatures& request) {
  return combine(stable_hash(request.tenant), request.system_fingerprint);
}

// ---- the prompt's text --------------------------------------------------------------------------

std::uint64_t closing_mark(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\n' || text[end - 1] == '\r')) --end;
  if (end == 0) return 0;
  const auto c = static_cast<unsigned char>(text[end - 1]);
  if (c >= 0x80) return 2;
  return is_letter(c) || is_digit(c) ? 1 : c;
}

template <class Sink>
void add_shape(std::string_view head, std::string_view tail, Sink& features) {
  const TextShape shape = shape_of(head);
  for (std::size_t kind = 0; kind < shape.counts.size(); ++kind) {
    if (shape.counts[kind] == 0) continue;
    features.add(Kind::kShape, kind, 0.3 * std::log1p(shape.counts[kind]),
                 named(TextShape::kNames[kind]));
  }
  features.add(Kind::kClosingMark, closing_mark(tail), 1, named("last character"));
  if (head.find("```") != std::string_view::npos) {
    features.add(Kind::kCodeFence, 0, 1, named("holds code"));
  }
  if (shape.script != 0) features.add(Kind::kScript, shape.script, 1, named("script"));
}

bool is_wide(std::string_view word) {
  return static_cast<unsigned char>(word.front()) >= 0xE0;
}

std::uint64_t joined(std::span<const Word> words) {
  std::uint64_t hash = 0;
  for (const Word& word : words) hash = combine(hash, word.hash);
  return hash;
}

/// "500 words", "three paragraphs": how many of what.
template <class Sink>
void add_amounts(std::span<const Word> words, Sink& features) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i].number < 0) continue;
    const std::uint64_t unit = stem_hash(words[i + 1].text);
    const auto name = [&] { return amount_name(words.subspan(i, 2)); };
    features.add(Kind::kAmount, combine(unit, bucket(words[i].number)), 1, name);
    features.add(Kind::kAmountSlope, unit, 0.3 * (std::log1p(words[i].number) - 3), name);
  }
}

/// `value`: what one of its words says.
template <class Sink>
void add_words(std::span<const Word> words, double value, Sink& features) {
  for (const Word& word : words) {
    const auto name = [&] { return words_name("word", {&word, 1}); };
    features.add(Kind::kWord, word.hash, value, name);
    if (word.text.size() >= kStemFrom) {
      features.add(Kind::kStem, stem_hash(word.text.substr(0, kStemFrom)), value, name);
    }
    if (const int cue = cue_of(word.hash); cue != 0) {
      features.add(Kind::kCue, static_cast<std::uint64_t>(cue), 1, named(cue_name(cue)));
    }
  }
  // Scripts without spaces: pairs of characters stand for words.
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto pair = words.subspan(i - 1, 2);
    if (!is_wide(pair[0].text) || !is_wide(pair[1].text)) continue;
    features.add(Kind::kCharacterPair, combine(pair[0].hash, pair[1].hash), value,
                 [&] { return words_name("characters", pair); });
  }
  add_amounts(words, features);
}

template <class Sink>
void add_prompt(const RequestFeatures& request, std::uint64_t model, Sink& features) {
  const auto head = std::string_view(request.prompt_head).substr(0, kTextBytes);
  std::string_view tail =
      request.prompt_tail.empty() ? head : std::string_view(request.prompt_tail);
  if (tail.size() > kTextBytes) tail = tail.substr(tail.size() - kTextBytes);
  add_shape(head, tail, features);

  std::array<Word, kHeadWords> head_buffer;
  std::array<Word, kTextBytes> tail_buffer;  // a word has at least one byte
  const auto first = scan_words(head, head_buffer);
  const auto at_end = scan_words(last_words(tail, kTailWords), tail_buffer);
  const auto last = at_end.last(std::min(at_end.size(), kTailWords));
  const double value = std::pow(static_cast<double>(first.size() + 1), -kWordPower);
  add_words(first, value, features);
  add_words(last, value, features);

  if (first.size() >= kOpeningWords) {
    const auto opening = first.first(kOpeningWords);
    features.add(Kind::kOpening, joined(opening), 1,
                 [&] { return words_name("opening", opening); });
  }
  const std::uint64_t first_word = first.empty() ? 0 : first[0].hash;
  features.add(Kind::kModelOpening, combine(model, first_word), 1,
               named("first word with this model"));
  if (request.system_fingerprint != 0) {
    features.add(Kind::kSystemOpening, combine(system_of(request), first_word), 1,
                 named("first word under this system prompt"));
  }
  if (request.prompt_fingerprint != 0) {
    features.add(Kind::kPrompt, request.prompt_fingerprint, 1, named("this prompt, seen before"));
    features.add(Kind::kModelPrompt, combine(model, request.prompt_fingerprint), 1,
                 named("this prompt with this model, seen before"));
  }
}

// ---- everything else ----------------------------------------------------------------------------

/// "meta-llama/Llama-3-8B-Instruct" has pieces in common with its relatives.
template <class Sink>
void add_model_pieces(std::string_view model, Sink& features) {
  std::size_t begin = 0;
  std::size_t pieces = 0;
  for (std::size_t end = 0; end <= model.size() && pieces < kModelPieces; ++end) {
    const auto c = static_cast<unsigned char>(end < model.size() ? model[end] : '/');
    if (is_letter(c) || is_digit(c) || c == '.') continue;
    if (end > begin) {
      const auto piece = model.substr(begin, end - begin);
      features.add(Kind::kModelPiece, folded_hash(piece), 1,
                   [&] { return quoted_name("models named", piece); });
      ++pieces;
    }
    begin = end + 1;
  }
}

template <class Sink>
void add_sampling(const RequestFeatures& request, std::uint64_t model, Sink& features) {
  std::uint64_t sampling = 0;
  if (request.temperature && std::isfinite(*request.temperature)) {
    const std::uint64_t temperature = 1 + bucket(*request.temperature * 10);
    features.add(Kind::kTemperature, temperature, 1, named("temperature"));
    sampling = temperature;
  }
  if (request.top_p && std::isfinite(*request.top_p)) {
    const std::uint64_t top_p = 1 + bucket(*request.top_p * 10);
    features.add(Kind::kTopP, top_p, 1, named("top_p"));
    sampling = combine(sampling, top_p);
  }
  if (sampling != 0) {
    features.add(Kind::kModelSampling, combine(model, sampling), 1,
                 named("sampling with this model"));
  }
}

template <class Sink>
void add_limits(const RequestFeatures& request, std::uint64_t model, Sink& features) {
  if (request.cap_is_explicit) {
    const double log_cap = log_tokens(request.cap);
    const std::uint64_t size = bucket(std::expm1(log_cap), 3);
    features.add(Kind::kCap, size, 1, named("limit"));
    features.add(Kind::kModelCap, combine(model, size), 1, named("limit with this model"));
    features.add(Kind::kCapSlope, 0, 0.3 * (log_cap - 6), named("limit"));
  }
  if (request.min_tokens.count() > 0) {
    features.add(Kind::kMinTokens, bucket(static_cast<double>(request.min_tokens.count())), 1,
                 named("least tokens"));
  }
  if (request.stop_sequences > 0) {
    features.add(Kind::kStops, bucket(request.stop_sequences), 1, named("stop sequences"));
  }
}

template <class Sink>
void add_call(const RequestFeatures& request, Sink& features) {
  features.add(Kind::kBias, 0, 1, named(kEveryRequest));
  features.add(Kind::kRoute, stable_hash(request.route), 1,
               [&] { return quoted_name("route", request.route); });
  if (!request.response_format.empty()) {
    features.add(Kind::kFormat, stable_hash(request.response_format), 1,
                 [&] { return quoted_name("response format", request.response_format); });
  }
  if (request.tool_choice_forced) features.add(Kind::kToolChoice, 0, 1, named("forced tool call"));
  if (request.tools > 0) features.add(Kind::kTools, bucket(request.tools), 1, named("tools"));
  features.add(Kind::kTurns, bucket(request.turns), 1, named("turns"));
  if (!request.reasoning_effort.empty()) {
    features.add(Kind::kEffort, stable_hash(request.reasoning_effort), 1,
                 [&] { return quoted_name("reasoning effort", request.reasoning_effort); });
  }
}

template <class Sink>
void add_conversation(const RequestFeatures& request, std::uint64_t model, Sink& features) {
  if (request.earlier_answers <= 0) return;
  const double last = log_tokens(request.last_answer);
  const double mean =
      std::isfinite(request.mean_log_answer) ? std::clamp(request.mean_log_answer, 0.0, 20.0) : 0.0;
  const auto name = named("earlier answers");
  features.add(Kind::kEarlierAnswers, bucket(request.earlier_answers), 1, name);
  features.add(Kind::kLastAnswer, bucket(std::expm1(last), 1.5), 1, name);
  features.add(Kind::kLastAnswerSlope, 0, 0.5 * (last - 5), name);
  features.add(Kind::kMeanAnswerSlope, 0, 0.5 * (mean - 5), name);
  features.add(Kind::kModelMeanAnswerSlope, model, 0.5 * (mean - 5), name);
}

template <class Sink>
void add_prompt_length(const RequestFeatures& request, std::uint64_t model, Sink& features) {
  const double log_prompt = log_tokens(request.prompt_tokens);
  const double tokens = std::expm1(log_prompt);
  const double slope = 0.3 * (log_prompt - 4);
  const auto name = named("prompt length");
  features.add(Kind::kPromptTokens, bucket(tokens, 3), 1, name);
  features.add(Kind::kPromptTokensSlope, 0, slope, name);
  features.add(Kind::kModelPromptSlope, model, slope, name);
  features.add(Kind::kModelPromptTokens, combine(model, bucket(tokens, 1.5)), 1, name);
}

template <class Sink>
void add_all(const RequestFeatures& request, Sink& features) {
  const std::uint64_t model = stable_hash(request.model);
  features.add(Kind::kModel, model, 1, [&] { return quoted_name("model", request.model); });
  features.add(Kind::kModelSlope, model, 1, named("how this model takes prompts"));
  add_model_pieces(request.model, features);
  features.add(Kind::kTenant, stable_hash(request.tenant), 1, [&] { return tenant_name(request); });
  if (request.system_fingerprint != 0) {
    features.add(Kind::kSystem, system_of(request), 1, named("system prompt"));
  }
  add_call(request, features);
  add_limits(request, model, features);
  add_sampling(request, model, features);
  add_conversation(request, model, features);
  add_prompt_length(request, model, features);
  add_prompt(request, model, features);
}

}  // namespace

void extract_features(const RequestFeatures& request, FeatureList& out) {
  Collector features(out);
  add_all(request, features);
  features.finish();
}

std::vector<NamedFeature> name_features(const RequestFeatures& request) {
  std::vector<NamedFeature> named_features;
  Namer features(named_features);
  add_all(request, features);
  return named_features;
}

}  // namespace tailrace::predict
