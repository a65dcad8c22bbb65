// Which samples does one file hold? One source per shape of file; SampleReader chains them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/dataset/samples.h"

namespace tailrace::dataset {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual Result<std::optional<Sample>> next() = 0;
};

/// `first_line` was read from `lines` already, so that its shape could be seen.
Result<std::unique_ptr<SampleSource>> json_samples(LineReader lines, std::string_view first_line,
                                                   SampleOptions options);
Result<std::unique_ptr<SampleSource>> csv_samples(LineReader lines, std::string_view first_line,
                                                  SampleOptions options);

inline constexpr double kMaxTokens = 1e12;
inline constexpr std::string_view kNumberRemedy =
    "it must be a number of tokens above 0 and at most 1e12";

inline bool is_token_count(double value) {
  return value > 0 && value <= kMaxTokens;  // neither holds for a NaN
}

/// What a limit says about the lengths recorded beside it.
enum class CapKind {
  kExact,       ///< counted as the lengths are: none may be above it
  kEnginesOwn,  ///< perhaps by another tokenizer: what is above it was cut at it
};

/// Brings `sample.lengths` under `cap` and keeps it. The error, if any, as text.
std::optional<std::string> apply_cap(Sample& sample, double cap, CapKind kind,
                                     std::string_view cap_name);

}  // namespace tailrace::dataset
