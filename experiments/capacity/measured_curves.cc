#include "capacity/measured_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "tailrace/core/text.h"
#include "tailrace/dataset/csv.h"

namespace tailrace::accuracy {
namespace {

/// A row's cells by column name.
class Row {
 public:
  Row(const dataset::CsvReader& csv, const std::vector<std::string>& cells)
      : csv_(csv), cells_(cells) {}

  std::string text(std::string_view column) const {
    const auto at = csv_.column(column);
    return at ? cells_[*at] : "";
  }
  std::optional<double> number(std::string_view column) const {
    const auto value = core::parse_double(text(column));
    return value && *value > 0 ? value : std::nullopt;
  }

 private:
  const dataset::CsvReader& csv_;
  const std::vector<std::string>& cells_;
};

Result<void> for_each_row(const std::string& path, const std::function<void(const Row&)>& visit) {
  auto lines = dataset::LineReader::open(path);
  if (!lines) return fail(lines.error());
  auto csv = dataset::CsvReader::open(std::move(*lines));
  if (!csv) return fail(csv.error());
  std::vector<std::string> cells;
  while (true) {
    const auto more = csv->next(cells);
    if (!more) return fail(more.error());
    if (!*more) return {};
    visit(Row(*csv, cells));
  }
}

/// A batch that prefills and decodes in turn: each request brings i + o − 1 tokens over its o
/// iterations, and touches its own context in every one of them.
CurvePoint mixed(double sequences, double input, double output, double ms) {
  const double decodes = output - 1;
  const double touched = input + input * decodes + (decodes * decodes + decodes) / 2;
  return {.sequences = sequences,
          .tokens = sequences * (input + decodes) / output,
          .kv = sequences * touched / output,
          .ms = ms};
}

/// A batch that only decodes.
CurvePoint decoding(double sequences, double input, double output, double ms) {
  return {.sequences = sequences,
          .tokens = sequences,
          .kv = sequences * (input + output / 2),
          .ms = ms};
}

struct Reader {
  const char* file;
  const char* name;
  const char* what;
  /// Curve's name and point, or nothing where the row does not say enough.
  std::function<std::optional<std::pair<std::string, CurvePoint>>(const Row&)> point;
};

using Named = std::optional<std::pair<std::string, CurvePoint>>;

Named inferencemax(const Row& row) {
  const auto n = row.number("concurrency"), input = row.number("isl"), output = row.number("osl"),
             ms = row.number("tpot_ms");
  if (row.text("mode") != "agg" || !n || !input || !output || !ms) return std::nullopt;
  // Lengths are drawn between 80 and 100 % of the stated ones.
  const double drawn = 0.9;
  return {
      {fmt::format("{} on {} {} {} {} tp{} pp{} dp{} ep{}", row.text("model"), row.text("system"),
                   row.text("precision"), row.text("backend"), row.text("backend_version"),
                   row.text("tp"), row.text("pp"), row.text("attention_dp"), row.text("moe_ep")),
       mixed(*n, drawn * *input, std::max(1.0, drawn * *output), *ms)}};
}

Named ml_energy(const Row& row) {
  const auto n = row.number("avg_batch"), output = row.number("avg_output_len"),
             ms = row.number("itl_p50_ms");
  if (!n || !output || !ms) return std::nullopt;
  // Prompts are not recorded; half of the gaps hold no prefill, and the median is of those.
  return {{fmt::format("{} {} on {} x {} tp{} ep{} dp{}", row.text("model"), row.text("task"),
                       row.text("n_gpus"), row.text("gpu"), row.text("tp"), row.text("ep"),
                       row.text("dp")),
           decoding(*n, 0, *output, *ms)}};
}

Named argonne(const Row& row) {
  const auto n = row.number("batch_size"), length = row.number("in_out_len"),
             seconds = row.number("latency_s");
  if (!n || !length || !seconds) return std::nullopt;
  return {{fmt::format("{} on {} x {} {}", row.text("model"), row.text("n_hardware"),
                       row.text("hardware"), row.text("framework")),
           mixed(*n, *length, *length, 1e3 * *seconds / *length)}};
}

Named splitwise(const Row& row) {
  const auto n = row.number("batch_size"), input = row.number("prompt_size"),
             output = row.number("token_size"), ms = row.number("token_time_ms");
  if (!n || !input || !output || !ms) return std::nullopt;
  return {{fmt::format("{} on {} tp{}", row.text("model"), row.text("hardware"),
                       row.text("tensor_parallel")),
           decoding(*n, *input, *output, *ms)}};
}

Named splitwise_prefill(const Row& row) {
  const auto n = row.number("batch_size"), input = row.number("prompt_size"),
             ms = row.number("prompt_time_ms");
  if (!n || !input || !ms) return std::nullopt;
  return {{fmt::format("{} on {} tp{}", row.text("model"), row.text("hardware"),
                       row.text("tensor_parallel")),
           CurvePoint{.sequences = *n * *input, .tokens = *n * *input, .kv = 0, .ms = *ms}}};
}

Named ibm(const Row& row) {
  const auto n = row.number("mean_in_system"), input = row.number("in_mean"),
             output = row.number("out_mean"), ms = row.number("itl_mean_ms"),
             all = row.number("requests_all"), ok = row.number("requests_ok");
  if (!n || !input || !output || !ms || !all || !ok) return std::nullopt;
  const std::string model = row.text("model");
  // Encoder-decoder models iterate otherwise; runs that lost requests ran out of memory.
  for (const char* other : {"t5", "ul2", "mt0"}) {
    if (model.find(other) != std::string::npos) return std::nullopt;
  }
  if (*ok < 0.95 * *all) return std::nullopt;
  return {{fmt::format("{} on {} x {}", model, row.text("n_gpus"), row.text("gpu")),
           mixed(*n, *input, *output, *ms)}};
}

Named control_loop_cycles(const Row& row) {
  const auto n = row.number("occupancy_per_replica"), input = row.number("in_tok_mean"),
             output = row.number("out_tok_mean"), ms = row.number("itl_ms");
  if (!n || !input || !output || !ms || *n < 1) return std::nullopt;
  return {{fmt::format("{} on {}", row.text("model"), row.text("accelerator")),
           mixed(*n, *input, *output, *ms)}};
}

Named control_loop_sweep(const Row& row) {
  const auto n = row.number("running"), ms = row.number("itl_ms"), kv = row.number("kv_pct");
  const std::string shape = row.text("shape");
  const auto parts = core::split(shape, 'x');
  if (!n || !ms || !kv || parts.size() != 2 || *kv > 95) return std::nullopt;
  const auto input = core::parse_double(parts[0]), output = core::parse_double(parts[1]);
  if (!input || !output) return std::nullopt;
  return {{"Qwen2.5-14B on H100", mixed(*n, *input, *output, *ms)}};
}

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{
      {"inferencemax_silicon/ttft_tpot.csv.gz", "InferenceMAX",
       "time per output token over closed-loop concurrency; 15 models, H100 to GB200",
       inferencemax},
      {"ml_energy/itl_by_batch.csv.gz", "ML.ENERGY",
       "median inter-token latency over the mean batch; vLLM on H100 and B200", ml_energy},
      {"argonne_llm_inference_bench/latency_throughput.csv.gz", "Argonne",
       "latency per token of one batch; A100, H100, GH200, MI250, MI300X, Gaudi2, PVC", argonne},
      {"splitwise_perf/perf_model.csv.gz", "Splitwise, decode",
       "decode step over the batch; Llama-2-70B and BLOOM-176B on A100 and H100", splitwise},
      {"splitwise_perf/perf_model.csv.gz", "Splitwise, prefill",
       "prefill over the prompt tokens in the batch", splitwise_prefill},
      {"ibm_llm_pilot/summary.csv.gz", "IBM LLM-Pilot",
       "mean inter-token latency over closed-loop users, prefill stalls included; TGIS on H100 to "
       "T4",
       ibm},
      {"control_loop_h100/cycles_real_vllm.csv.gz", "control loop, cycles",
       "inter-token latency over occupancy of scaled vLLM replicas; H100", control_loop_cycles},
      {"control_loop_h100/qwen14b_sweep.csv.gz", "control loop, sweep",
       "inter-token latency over running requests, memory not full; vLLM, H100",
       control_loop_sweep},
  };
  return all;
}

/// Repeated measurements of one point become their median.
std::vector<CurvePoint> merged(std::vector<CurvePoint> points) {
  const auto key = [](const CurvePoint& p) { return std::tuple(p.sequences, p.tokens, p.kv); };
  std::sort(points.begin(), points.end(), [&](const CurvePoint& a, const CurvePoint& b) {
    return std::tuple(key(a), a.ms) < std::tuple(key(b), b.ms);
  });
  std::vector<CurvePoint> out;
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin;
    while (end < points.size() && key(points[end]) == key(points[begin])) ++end;
    out.push_back(points[begin + (end - begin) / 2]);
    begin = end;
  }
  return out;
}

}  // namespace

std::string recorded_data_folder() {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const auto root = shared != nullptr ? std::filesystem::path(shared)
                                      : std::filesystem::path(TAILRACE_SOURCE_DIR) / "../shared";
  return (root / "data").string();
}

Result<std::vector<Source>> read_sources(const std::string& folder) {
  std::vector<Source> sources;
  for (const Reader& reader : readers()) {
    const std::string path = folder + "/" + reader.file;
    if (!std::filesystem::exists(path)) continue;
    std::map<std::string, std::vector<CurvePoint>> by_name;
    const auto read = for_each_row(path, [&](const Row& row) {
      if (auto named = reader.point(row)) by_name[named->first].push_back(named->second);
    });
    if (!read) return fail(read.error());
    Source source{reader.name, reader.what, {}};
    for (auto& [name, points] : by_name) source.curves.push_back({name, merged(std::move(points))});
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace tailrace::accuracy
