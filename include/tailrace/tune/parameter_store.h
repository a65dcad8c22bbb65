// What has been learnt of this model, on this accelerator, in this configuration, before the
// program was started?
//
// Estimators' states by what iteration times depend on, not by the variant's name: a variant that
// comes back under another name finds what it has taught, and one whose image, accelerator or flags
// have changed starts anew, from a weakened prior of what its model taught elsewhere. Bounded: the
// longest unseen are forgotten first. One JSON document, the same bytes for the same content. Time
// is the caller's calendar, in seconds. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/tune/estimator.h"

namespace tailrace::tune {

/// Compared part by part: no character of a name can make two keys one.
struct ParameterKey {
  std::string model;
  std::string accelerator;
  std::string configuration;  ///< a fingerprint()

  friend auto operator<=>(const ParameterKey&, const ParameterKey&) = default;
};

/// 32 hexadecimal digits of what else iteration times depend on: image, number of accelerators,
/// engine flags. Same settings, same digits, on any machine.
std::string fingerprint(const std::map<std::string, std::string>& settings);

class ParameterStore {
 public:
  struct Options {
    std::size_t entries_max = 1'000;
    double forget_after_s = 30.0 * 86'400;  ///< not seen for so long
  };

  struct Entry {
    EstimatorKind kind = EstimatorKind::kWindowed;
    std::string state;  ///< Estimator::save()
    /// The best so far, for those who can use no more: empty before the first usable observation.
    std::optional<queueing::IterationModel> values;
    bool identified = false;
    double seen_s = 0;  ///< when it was last put
  };

  static constexpr std::size_t kNameBytesMax = 1'024;      ///< each part of a key
  static constexpr std::size_t kStateBytesMax = 1U << 20;  ///< of one estimator
  static constexpr std::size_t kFileBytesMax = 64U << 20;

  explicit ParameterStore(const Options& options) : options_(options) {}
  ParameterStore() : ParameterStore(Options{}) {}

  /// An estimator for this key, and where its knowledge comes from.
  struct Started {
    enum class From { kNothing, kRelated, kItself };
    std::unique_ptr<Estimator> estimator;
    From from = From::kNothing;
    std::string reason;  ///< one sentence
  };
  /// With its own state, if there is one that can be read; else, if the model is known from
  /// elsewhere, with a prior: of the same accelerator before others, identified before others, the
  /// latest seen first. Errors: those of TuneConfig::check().
  Result<Started> start(const ParameterKey& key, TuneConfig config) const;

  /// Keeps what an estimator has learnt. What was not seen for long is forgotten, and the longest
  /// unseen where there are too many. Errors: kInvalidArgument for a part of the key that is empty
  /// or too long, or a time that is not finite; kResourceExhausted for a state that is too large;
  /// then nothing has changed.
  Result<void> put(const ParameterKey& key, EstimatorKind kind, const Estimator& estimator,
                   double now_s);

  const std::map<ParameterKey, Entry>& entries() const { return entries_; }

  std::string save() const;
  /// Errors: kDataLoss or kUnsupported saying what is wrong; then nothing has changed.
  Result<void> restore(std::string_view document);

  /// Replaces the file whole: after a crash it is the old one or the new one. Errors: those of
  /// core::write_file_atomically; kResourceExhausted above kFileBytesMax.
  Result<void> save_file(const std::string& path) const;

  struct Loaded;
  /// No file is an empty store. A file that is no store of ours is moved aside, so that nothing
  /// overwrites it. Errors: it cannot be read, or not be moved aside.
  static Result<Loaded> load_file(const std::string& path, const Options& options);

 private:
  void forget(double now_s);

  Options options_;
  std::map<ParameterKey, Entry> entries_;
};

struct ParameterStore::Loaded {
  ParameterStore store;
  /// What is wrong with the file, and where it is now; then the store is empty.
  std::optional<Error> damage;
};

}  // namespace tailrace::tune
