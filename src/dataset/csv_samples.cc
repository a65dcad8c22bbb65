#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <unordered_set>

#include "dataset/sample_source.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"

namespace tailrace::dataset {
namespace {

/// "length_12" and the like: a column of the wide form.
bool is_numbered_length(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  if (last == std::string_view::npos || last + 1 == name.size()) return false;
  std::string_view stem = name.substr(0, last + 1);
  while (!stem.empty() && (stem.back() == '_' || stem.back() == '-' || stem.back() == ' ')) {
    stem.remove_suffix(1);
  }
  return stem == "length" || stem == "tokens" || stem == "sample" || stem == "run";
}

std::optional<std::size_t> first_column(const CsvReader& csv,
                                        std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto at = csv.column(name)) return at;
  }
  return std::nullopt;
}

class CsvSamples final : public SampleSource {
 public:
  CsvSamples(CsvReader csv, SampleOptions options) : csv_(std::move(csv)), options_(options) {}

  Result<void> find_columns() {
    id_ = first_column(csv_, {"id", "prompt_id", "prompt"});
    cap_ = first_column(csv_, {"cap", "max_tokens"});
    length_ = first_column(csv_, {"length", "tokens", "output_tokens", "out_tokens"});
    list_ = csv_.column("lengths");
    for (std::size_t i = 0; i < csv_.header().size(); ++i) {
      if (is_numbered_length(csv_.header()[i])) wide_.push_back(i);
    }
    if (length_ || list_ || !wide_.empty()) return {};
    return bad(fmt::format(
        "the header {} names no column of lengths; the first line must be id,length[,cap] (one "
        "answer a row), id,lengths or id,length_1,length_2,… (one prompt a row)",
        core::quoted(fmt::format("{}", fmt::join(csv_.header(), ",")))));
  }

  Result<std::optional<Sample>> next() override {
    return length_ && !list_ ? next_of_long_form() : next_of_row_form();
  }

 private:
  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(csv_.lines().at_line(ErrorCode::kInvalidArgument, what));
  }

  Result<double> tokens(std::string_view column, std::string_view cell) const {
    const auto value = core::parse_double(core::trim(cell));
    if (value && is_token_count(*value)) return *value;
    return bad(fmt::format("{} is {}; {}", column, core::quoted(cell), kNumberRemedy));
  }

  Result<void> add_length(std::size_t column, std::string_view cell, Sample& into) const {
    const auto value = tokens(csv_.header()[column], cell);
    if (!value) return fail(value.error());
    if (into.lengths.size() == options_.max_lengths) {
      return bad(fmt::format("{} has more than {} lengths; sample them", core::quoted(into.id),
                             options_.max_lengths));
    }
    into.lengths.push_back(*value);
    return {};
  }

  /// Nothing where the column is absent or its cell empty.
  Result<std::optional<double>> row_cap() const {
    if (!cap_ || core::trim(cells_[*cap_]).empty()) return std::nullopt;
    const auto value = tokens(csv_.header()[*cap_], cells_[*cap_]);
    if (!value) return fail(value.error());
    return *value;
  }

  Result<void> finish(Sample& sample, std::optional<double> cap) const {
    if (!cap) return {};
    const std::string& name = csv_.header()[*cap_];
    const CapKind kind = name == "cap" ? CapKind::kExact : CapKind::kEnginesOwn;
    if (auto wrong = apply_cap(sample, *cap, kind, name)) {
      return bad(fmt::format("{}: {}", core::quoted(sample.id), *wrong));
    }
    return {};
  }

  Result<std::optional<Sample>> next_of_long_form() {
    if (!row_waits_) {
      auto more = csv_.next(cells_);
      if (!more) return fail(more.error());
      if (!*more) return std::nullopt;
    }
    row_waits_ = false;
    Sample sample{id_ ? cells_[*id_] : "all", {}, {}};
    if (!seen_.insert(stable_hash(sample.id)).second) {
      return bad(
          fmt::format("{} comes back after another id; sort the file by id, so that each "
                      "prompt's rows stand together",
                      core::quoted(sample.id)));
    }
    const auto cap = row_cap();
    if (!cap) return fail(cap.error());
    if (auto added = add_length(*length_, cells_[*length_], sample); !added) {
      return fail(added.error());
    }
    for (;;) {
      auto more = csv_.next(cells_);
      if (!more) return fail(more.error());
      if (!*more) break;
      if (id_ && cells_[*id_] != sample.id) {
        row_waits_ = true;
        break;
      }
      const auto again = row_cap();
      if (!again) return fail(again.error());
      if (*again != *cap) {
        return bad(
            fmt::format("{} of {} is {}, but another of its rows says {}; give one cap a "
                        "prompt",
                        csv_.header()[*cap_], core::quoted(sample.id), core::quoted(cells_[*cap_]),
                        *cap ? fmt::format("{}", **cap) : std::string("nothing")));
      }
      if (auto added = add_length(*length_, cells_[*length_], sample); !added) {
        return fail(added.error());
      }
    }
    if (auto done = finish(sample, *cap); !done) return fail(done.error());
    return sample;
  }

  /// One prompt a row: its lengths in one cell, or in numbered columns.
  Result<std::optional<Sample>> next_of_row_form() {
    auto more = csv_.next(cells_);
    if (!more) return fail(more.error());
    if (!*more) return std::nullopt;
    Sample sample{id_ ? cells_[*id_] : fmt::format("line {}", csv_.lines().line_number()), {}, {}};
    auto read = list_ ? read_list(sample) : read_wide(sample);
    if (!read) return fail(read.error());
    if (sample.lengths.empty()) {
      return bad(fmt::format("{} has no lengths; give at least one, or leave the row out",
                             core::quoted(sample.id)));
    }
    const auto cap = row_cap();
    if (!cap) return fail(cap.error());
    if (auto done = finish(sample, *cap); !done) return fail(done.error());
    return sample;
  }

  Result<void> read_list(Sample& into) const {
    std::string_view rest = cells_[*list_];
    constexpr std::string_view kSeparators = " ;,|\t[]";
    for (;;) {
      const std::size_t begin = rest.find_first_not_of(kSeparators);
      if (begin == std::string_view::npos) return {};
      rest.remove_prefix(begin);
      const std::size_t end = std::min(rest.find_first_of(kSeparators), rest.size());
      if (auto added = add_length(*list_, rest.substr(0, end), into); !added) return added;
      rest.remove_prefix(end);
    }
  }

  Result<void> read_wide(Sample& into) const {
    for (const std::size_t column : wide_) {
      if (core::trim(cells_[column]).empty()) continue;
      if (auto added = add_length(column, cells_[column], into); !added) return added;
    }
    return {};
  }

  CsvReader csv_;
  SampleOptions options_;
  std::optional<std::size_t> id_, cap_, length_, list_;
  std::vector<std::size_t> wide_;
  std::vector<std::string> cells_;
  bool row_waits_ = false;  ///< `cells_` begin the next prompt
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace

Result<std::unique_ptr<SampleSource>> csv_samples(LineReader lines, std::string_view first_line,
                                                  SampleOptions options) {
  auto csv = CsvReader::with_header(std::move(lines), first_line);
  if (!csv) return fail(csv.error());
  auto source = std::make_unique<CsvSamples>(std::move(*csv), options);
  if (auto found = source->find_columns(); !found) return fail(found.error());
  return source;
}

}  // namespace tailrace::dataset
