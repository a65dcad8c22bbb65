// What can a feature be about, which family does it belong to, and how far may its weight move
// before anything is known?
//
// `scale` is the feature's input: a weight's prior standard deviation grows with it. The scales,
// and which kinds there are at all, were chosen by ablation
// (docs/decisions/0009-predictor-features.md).
#pragma once

#include <array>
#include <cstdint>

namespace tailrace::predict {

/// A family of features. Families are believed more or less as a whole (blend.h).
enum class Part : std::uint8_t {
  kModel,        ///< the model's name and its pieces, with the limits and sampling asked of it
  kTenant,       ///< the tenant and its system prompts: nobody else shares these weights
  kCall,         ///< route, format, tools, limits, conversation
  kLength,       ///< of the prompt
  kShape,        ///< lines, marks, digits, script of the prompt
  kWords,        ///< single words and amounts
  kOpening,      ///< the first words together
  kPrompt,       ///< this very prompt
  kModelPrompt,  ///< this prompt, or its opening, with this model
  kModelSlope,   ///< this model's slope on what the prompt says; no part of the blend
};

// A feature's kind is part of its hash, so that equal texts in different roles stay apart. The
// numbers are part of the saved image: append, never renumber.
enum class Kind : std::uint8_t {
  kBias,
  kModel,
  kModelPiece,
  kModelSampling,
  kModelCap,
  kModelSlope,
  kTenant,
  kSystem,
  kSystemOpening,
  kRoute,
  kFormat,
  kToolChoice,
  kTools,
  kTurns,
  kEffort,
  kMinTokens,
  kStops,
  kTemperature,
  kTopP,
  kCap,
  kCapSlope,
  kEarlierAnswers,
  kLastAnswer,
  kLastAnswerSlope,
  kMeanAnswerSlope,
  kModelMeanAnswerSlope,
  kPromptTokens,
  kPromptTokensSlope,
  kModelPromptTokens,
  kModelPromptSlope,
  kShape,
  kClosingMark,
  kCodeFence,
  kScript,
  kWord,
  kStem,
  kCue,
  kAmount,
  kAmountSlope,
  kCharacterPair,
  kOpening,
  kPrompt,
  kModelPrompt,
  kModelOpening,
};

struct KindTraits {
  Kind kind;
  Part part;
  float scale;
  /// Clients can make up any number of values: kept away from the weights of those that are few.
  bool open;
};

inline constexpr KindTraits kKinds[] = {
    {Kind::kBias, Part::kCall, 1, false},
    {Kind::kModel, Part::kModel, 1, false},
    {Kind::kModelPiece, Part::kModel, 0.5F, false},
    {Kind::kModelSampling, Part::kModel, 1, false},
    {Kind::kModelCap, Part::kModel, 1, false},
    {Kind::kModelSlope, Part::kModelSlope, 1.3F, false},
    {Kind::kTenant, Part::kTenant, 1, false},
    {Kind::kSystem, Part::kTenant, 1, true},
    {Kind::kSystemOpening, Part::kTenant, 1, true},
    {Kind::kRoute, Part::kCall, 1, false},
    {Kind::kFormat, Part::kCall, 1, false},
    {Kind::kToolChoice, Part::kCall, 1, false},
    {Kind::kTools, Part::kCall, 1, false},
    {Kind::kTurns, Part::kCall, 1, false},
    {Kind::kEffort, Part::kCall, 1, false},
    {Kind::kMinTokens, Part::kCall, 1, false},
    {Kind::kStops, Part::kCall, 1, false},
    {Kind::kTemperature, Part::kCall, 0.5F, false},
    {Kind::kTopP, Part::kCall, 1, false},
    {Kind::kCap, Part::kCall, 1, false},
    {Kind::kCapSlope, Part::kCall, 1, false},
    {Kind::kEarlierAnswers, Part::kCall, 1, false},
    {Kind::kLastAnswer, Part::kCall, 1, false},
    {Kind::kLastAnswerSlope, Part::kCall, 1, false},
    {Kind::kMeanAnswerSlope, Part::kCall, 1, false},
    {Kind::kModelMeanAnswerSlope, Part::kCall, 1, false},
    {Kind::kPromptTokens, Part::kLength, 1, false},
    {Kind::kPromptTokensSlope, Part::kLength, 1, false},
    {Kind::kModelPromptTokens, Part::kLength, 0.5F, false},
    {Kind::kModelPromptSlope, Part::kLength, 1, false},
    {Kind::kShape, Part::kShape, 0.85F, false},
    {Kind::kClosingMark, Part::kShape, 1, false},
    {Kind::kCodeFence, Part::kShape, 1, false},
    {Kind::kScript, Part::kShape, 1, false},
    {Kind::kWord, Part::kWords, 1.7F, true},
    {Kind::kStem, Part::kWords, 0.85F, true},
    {Kind::kCue, Part::kWords, 1, false},
    {Kind::kAmount, Part::kWords, 1, true},
    {Kind::kAmountSlope, Part::kWords, 1, true},
    {Kind::kCharacterPair, Part::kWords, 1, true},
    {Kind::kOpening, Part::kOpening, 1, true},
    {Kind::kPrompt, Part::kPrompt, 2, true},
    {Kind::kModelPrompt, Part::kModelPrompt, 1, true},
    {Kind::kModelOpening, Part::kModelPrompt, 1, true},
};

constexpr bool kinds_are_in_order() {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (static_cast<std::size_t>(kKinds[i].kind) != i) return false;
  }
  return true;
}
static_assert(kinds_are_in_order());

constexpr const KindTraits& traits(Kind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

}  // namespace tailrace::predict
