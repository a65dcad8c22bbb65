#include "tailrace/dataset/samples.h"

#include <fmt/format.h>

#include <unordered_map>

#include "dataset/sample_source.h"
#include "tailrace/core/text.h"

namespace tailrace::dataset {
namespace {

/// Tells a file's shape from its first line that is not blank.
Result<std::unique_ptr<SampleSource>> source_of(LineReader lines, const SampleOptions& options) {
  for (;;) {
    const auto line = lines.next();
    if (!line) return fail(line.error());
    if (!*line) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: it is empty; give JSON lines {{\"id\", \"lengths\": […]}} or "
                              "CSV with the header id,length",
                              lines.name()));
    }
    const std::string_view text = core::trim(**line);
    if (text.empty()) continue;
    const std::string first(**line);
    if (text.front() == '{') return json_samples(std::move(lines), first, options);
    if (text.front() == '[') {
      return fail(lines.at_line(ErrorCode::kInvalidArgument,
                                "a JSON list; give one object a line instead"));
    }
    return csv_samples(std::move(lines), first, options);
  }
}

}  // namespace

struct SampleReader::Impl {
  std::vector<std::string> paths;
  std::size_t next_path = 0;
  SampleOptions options;

  std::unique_ptr<SampleSource> source;
  std::string source_name;
  std::uint64_t from_source = 0;
  std::optional<Error> failed;

  // Of pooling.
  bool pooled = false;
  std::vector<Sample> pool;
  std::size_t next_pooled = 0;

  Result<void> take(Result<LineReader> lines) {
    if (!lines) return fail(lines.error());
    source_name = lines->name();
    from_source = 0;
    auto opened = source_of(std::move(*lines), options);
    if (!opened) return fail(opened.error());
    source = std::move(*opened);
    return {};
  }

  Result<std::optional<Sample>> next_single() {
    for (;;) {
      if (!source) {
        if (next_path == paths.size()) return std::nullopt;
        const std::string& path = paths[next_path++];
        if (auto taken = take(LineReader::open(path, options.max_line_bytes)); !taken) {
          return fail(taken.error());
        }
      }
      auto sample = source->next();
      if (!sample || *sample) {
        ++from_source;
        return sample;
      }
      source.reset();
      if (from_source == 0) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: it holds no lengths; give at least one", source_name));
      }
    }
  }

  Result<void> fill_pool() {
    std::unordered_map<std::string, std::size_t> index;
    for (;;) {
      auto sample = next_single();
      if (!sample) return fail(sample.error());
      if (!*sample) return {};
      const auto [at, is_new] = index.try_emplace((*sample)->id, pool.size());
      if (is_new) {
        pool.push_back(std::move(**sample));
        continue;
      }
      Sample& into = pool[at->second];
      if (into.cap != (*sample)->cap) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: {} has records with different caps, which cannot be pooled; "
                                "fit without pooling, or give one cap",
                                source_name, core::quoted(into.id)));
      }
      const std::vector<double>& lengths = (*sample)->lengths;
      if (into.lengths.size() + lengths.size() > options.max_lengths) {
        return fail(ErrorCode::kResourceExhausted,
                    fmt::format("{}: {} has more than {} lengths; sample them", source_name,
                                core::quoted(into.id), options.max_lengths));
      }
      into.lengths.insert(into.lengths.end(), lengths.begin(), lengths.end());
    }
  }

  Result<std::optional<Sample>> next_any() {
    if (!options.pool) return next_single();
    if (!pooled) {
      if (auto filled = fill_pool(); !filled) return fail(filled.error());
      pooled = true;
    }
    if (next_pooled == pool.size()) return std::nullopt;
    return std::move(pool[next_pooled++]);
  }
};

SampleReader::SampleReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SampleReader::SampleReader(SampleReader&&) noexcept = default;
SampleReader& SampleReader::operator=(SampleReader&&) noexcept = default;
SampleReader::~SampleReader() = default;

SampleReader::SampleReader(std::vector<std::string> paths, SampleOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->paths = std::move(paths);
  impl_->options = options;
}

Result<SampleReader> SampleReader::from_bytes(std::string bytes, std::string name,
                                              SampleOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  auto taken =
      impl->take(LineReader::from_bytes(std::move(bytes), std::move(name), options.max_line_bytes));
  if (!taken) return fail(taken.error());
  return SampleReader(std::move(impl));
}

Result<std::optional<Sample>> SampleReader::next() {
  if (impl_->failed) return fail(*impl_->failed);
  auto sample = impl_->next_any();
  if (!sample) impl_->failed = sample.error();
  return sample;
}

}  // namespace tailrace::dataset
