// Which lengths did the answers to each prompt have?
//
// A SampleReader yields one prompt's recorded answer lengths after another, from the first file to
// the last, in memory bounded by one record (and some 40 bytes for each id of a CSV file). Shapes,
// told apart by content:
//
//   {"id": "p1", "lengths": [12, 40], "cap": 2048}      a prompt a line; `cap` may be left out
//   {"prompt_id": …, "tokens": […], "max_tokens": …}    the same under other names; model, plan,
//                                                       variant, config and temperature join the id
//   {"model": …, "out_tokens": {"17": [12], …}}         many prompts of one model a line
//   id,length[,cap]                                     CSV, rows of one id together
//   id,lengths[,cap]                                    CSV, a cell holds "12 40"
//   id,length_1,length_2,…[,cap]                        CSV, a prompt a row; empty cells are
//   missing
//
// A length equal to the cap was cut there. `max_tokens` is the engine's own limit, and the lengths
// beside it may be counted by another tokenizer, so those above it count as cut at it; a `cap`
// below a length is an error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/dataset/line_reader.h"

namespace tailrace::dataset {

struct Sample {
  std::string id;
  std::vector<double> lengths;  ///< tokens: finite, > 0, none above `cap`; at least one
  std::optional<double> cap;    ///< tokens

  friend bool operator==(const Sample&, const Sample&) = default;
};

struct SampleOptions {
  /// Puts records of one (model, prompt) together, whatever their sampling settings, in order of
  /// first appearance. Needs all lengths in memory.
  bool pool = false;
  std::size_t max_line_bytes = LineReader::kMaxLineBytes;
  std::size_t max_lengths = std::size_t{16} << 20;  ///< of one prompt
};

class SampleReader {
 public:
  /// "-" is standard input. Each file is opened when its turn comes.
  explicit SampleReader(std::vector<std::string> paths, SampleOptions options = {});
  /// Over bytes in memory; `name` stands in messages. Errors: those of `next` for a first line of
  /// no known shape.
  static Result<SampleReader> from_bytes(std::string bytes, std::string name,
                                         SampleOptions options = {});

  SampleReader(SampleReader&&) noexcept;
  SampleReader& operator=(SampleReader&&) noexcept;
  ~SampleReader();

  /// The next prompt; nothing at the end of the last file. Errors name file, line, field, value and
  /// remedy: kInvalidArgument for a record that is none, a file without any, a CSV id that comes
  /// back after another; those of LineReader.
  Result<std::optional<Sample>> next();

 private:
  struct Impl;
  explicit SampleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::dataset
