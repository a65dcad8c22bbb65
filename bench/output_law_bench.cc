// Which output law describes public answers best, and does every tenant keep an honest one?
//
// One pass, predict then learn, over whole data sets in an order shuffled by a seed. The score is
// ln of the probability that the law gave to the whole token seen, the atom at the cap included.
#include <simdjson.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "predict/length_bins.h"
#include "tailrace/core/rng.h"
#include "tailrace/predict/predictor.h"
#include "tailrace/predict/prompt.h"

namespace {

using namespace tailrace;
using predict::Observation;
using predict::Predictor;
using predict::RequestFeatures;

struct Sample {
  RequestFeatures features;
  std::int64_t length = 0;
  bool censored = false;
};

std::filesystem::path data_folder() {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const std::filesystem::path root = shared != nullptr ? shared : TAILRACE_SOURCE_DIR "/../shared";
  return root / "data";
}

template <class Use>
void each_line(const char* name, Use use) {
  gzFile file = gzopen((data_folder() / name).c_str(), "rb");
  if (file == nullptr) return;
  simdjson::dom::parser parser;
  std::string line;
  char buffer[1 << 16];
  int got = 0;
  while ((got = gzread(file, buffer, sizeof(buffer))) > 0) {
    for (int i = 0; i < got; ++i) {
      if (buffer[i] != '\n') {
        line.push_back(buffer[i]);
        continue;
      }
      use(parser.parse(line).value());
      line.clear();
    }
  }
  gzclose(file);
}

std::string text_of(simdjson::dom::element object, const char* field) {
  return std::string{object[field].get_string().value()};
}

Sample make(std::string model, std::string_view prompt, std::int64_t prompt_tokens,
            std::int64_t length, std::int64_t cap) {
  Sample s;
  s.features.model = std::move(model);
  s.features.route = "chat";
  const std::string_view turn[] = {prompt};
  predict::set_prompt_text(turn, s.features);
  s.features.prompt_tokens = Tokens(prompt_tokens);
  s.features.cap = Tokens(cap);
  s.length = std::min(std::max<std::int64_t>(length, 1), cap);
  s.censored = length >= cap;
  return s;
}

constexpr std::int64_t kNoCap = 32768;

std::vector<Sample> gpteacher() {
  std::vector<Sample> out;
  each_line("gpteacher/prompts_with_lengths.jsonl.gz", [&](simdjson::dom::element row) {
    Sample s = make("gpt-4", text_of(row, "prompt"), row["prompt_tokens"].get_int64().value(),
                    row["out_tokens"].get_int64().value(), kNoCap);
    out.push_back(std::move(s));
  });
  return out;
}

std::vector<Sample> arena_hard() {
  std::vector<Sample> out;
  each_line("arena_hard/prompts_with_lengths.jsonl.gz", [&](simdjson::dom::element row) {
    const simdjson::dom::object answers = row["out"].get_object().value();
    for (const auto& [model, tokens] : answers) {
      out.push_back(make(std::string(model), text_of(row, "prompt"),
                         row["prompt_tokens"].get_int64().value(), tokens.get_int64().value(),
                         kNoCap));
    }
  });
  return out;
}

std::vector<Sample> oasst() {
  std::vector<Sample> out;
  std::map<std::string, std::pair<std::string, std::int64_t>, std::less<>> prompts;
  each_line("oasst_model_eval/prompts.jsonl.gz", [&](simdjson::dom::element row) {
    prompts[std::to_string(row["id"].get_int64().value())] = {
        text_of(row, "prompt"), row["prompt_tokens"].get_int64().value()};
  });
  each_line("oasst_model_eval/output_lengths.jsonl.gz", [&](simdjson::dom::element row) {
    const auto params = row["params"];
    std::int64_t cap = kNoCap;
    if (params["max_new_tokens"].get(cap) != simdjson::SUCCESS) cap = kNoCap;
    double temperature = -1;
    if (params["temperature"].get(temperature) != simdjson::SUCCESS) temperature = -1;
    bool sampled = true;
    if (params["do_sample"].get(sampled) == simdjson::SUCCESS && !sampled) temperature = 0;
    const simdjson::dom::object lengths = row["out_tokens"].get_object().value();
    for (const auto& [id, tokens] : lengths) {
      const auto prompt = prompts.find(id);
      if (prompt == prompts.end()) continue;
      const simdjson::dom::array answers = tokens.get_array().value();
      for (const auto t : answers) {
        Sample s = make(text_of(row, "model"), prompt->second.first, prompt->second.second,
                        t.get_int64().value(), cap);
        s.features.cap_is_explicit = cap != kNoCap;
        if (temperature >= 0) s.features.temperature = temperature;
        out.push_back(std::move(s));
      }
    }
  });
  return out;
}

void shuffle(std::vector<Sample>& items, Rng rng) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[rng.below(i)]);
}

// ---- baselines ----------------------------------------------------------------------------------

/// A histogram per key, a twentieth of a token's worth of prior in each bin.
class Histograms final : public Predictor {
 public:
  using Key = std::string (*)(const RequestFeatures&);
  Histograms(const char* name, Key key) : name_(name), key_(key) {}
  std::string_view name() const override { return name_; }
  std::vector<predict::Prediction> predict(std::span<const RequestFeatures> batch) override {
    std::vector<predict::Prediction> out;
    for (const auto& f : batch) {
      out.push_back({*length::LengthLaw::binned(predict::kEdge, counts(key_(f))), false});
    }
    return out;
  }
  void observe(const RequestFeatures& f, const Observation& o) override {
    auto& c = counts(key_(f));
    const auto tokens = static_cast<double>(o.length.count());
    if (!o.censored) {
      c[predict::bin_of(tokens)] += 1;
      return;
    }
    double beyond = 0;
    const std::size_t first = predict::bin_of(tokens + 1);
    for (std::size_t i = first; i < predict::kBins; ++i) beyond += c[i];
    for (std::size_t i = first; i < predict::kBins; ++i) c[i] += c[i] / beyond;
  }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view) override { return {}; }

 private:
  std::vector<double>& counts(const std::string& key) {
    auto& c = counts_[key];
    if (c.empty()) c.assign(predict::kBins, 0.05);
    return c;
  }
  const char* name_;
  Key key_;
  std::map<std::string, std::vector<double>> counts_;
};

// ---- scores -------------------------------------------------------------------------------------

struct Score {
  double log_score = 0;
  double coverage50 = 0, coverage80 = 0, coverage90 = 0, coverage99 = 0;
  double above99 = 0;
  double tau = 0;
  double calibrated = 0;
  double predict_us = 0, observe_us = 0;
  double n = 0;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Score prequential(Predictor& predictor, const std::vector<Sample>& samples, Rng rng) {
  Score s;
  std::vector<std::pair<double, std::size_t>> medians;
  const double n = static_cast<double>(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = samples[i];
    const double start = cpu_seconds();
    const auto prediction = predictor.predict(std::span(&sample.features, 1)).front();
    const double predicted = cpu_seconds();
    predictor.observe(sample.features, {Tokens(sample.length), sample.censored});
    s.observe_us += 1e6 * (cpu_seconds() - predicted) / n;
    s.predict_us += 1e6 * (predicted - start) / n;
    const auto x = static_cast<double>(sample.length);
    const bool at_cap = sample.length >= sample.features.cap.count();
    const double above = prediction.law.survival(x - 1);
    const double beyond = at_cap ? 0 : prediction.law.survival(x);
    s.log_score += std::log(std::max(above - beyond, 1e-12)) / n;
    const double u = 1 - above + rng.uniform() * (above - beyond);
    const double off = std::abs(u - 0.5);
    s.coverage50 += off < 0.25 ? 1 / n : 0;
    s.coverage80 += off < 0.4 ? 1 / n : 0;
    s.coverage90 += off < 0.45 ? 1 / n : 0;
    s.coverage99 += off < 0.495 ? 1 / n : 0;
    s.above99 += u > 0.99 ? 1 / n : 0;
    s.calibrated += prediction.calibrated ? 1 / n : 0;
    medians.emplace_back(prediction.law.median(), i);
  }
  // Kendall's tau-b on random pairs.
  double agree = 0, said = 0, true_pairs = 0;
  for (int k = 0; k < 400'000; ++k) {
    const std::size_t a = rng.below(samples.size()), b = rng.below(samples.size());
    const double dx = medians[a].first - medians[b].first;
    const auto dy = static_cast<double>(samples[a].length - samples[b].length);
    agree += (dx > 0 ? 1 : dx < 0 ? -1 : 0) * (dy > 0 ? 1 : dy < 0 ? -1 : 0);
    said += dx != 0 ? 1 : 0;
    true_pairs += dy != 0 ? 1 : 0;
  }
  s.tau = agree / std::sqrt(std::max(said, 1.0) * true_pairs);
  s.n = n;
  return s;
}

void print(std::string_view name, const Score& s) {
  std::printf("  %-22s %8.4f  %5.1f %5.1f %5.1f %5.1f %5.2f  %6.3f %6.2f  %6.1f %6.1f\n",
              std::string(name).c_str(), s.log_score, 100 * s.coverage50, 100 * s.coverage80,
              100 * s.coverage90, 100 * s.coverage99, 100 * s.above99, s.tau, s.calibrated,
              s.predict_us, s.observe_us);
  std::fflush(stdout);
}

void compare(const char* title, std::vector<Sample> samples, std::uint64_t seed, std::size_t most) {
  if (samples.empty()) {
    std::printf("%s: skipped, not under %s (set TAILRACE_SHARED)\n", title, data_folder().c_str());
    return;
  }
  shuffle(samples, Rng(seed));
  if (samples.size() > most) samples.resize(most);
  std::printf("%s: %zu answers\n  %-22s %8s  %5s %5s %5s %5s %5s  %6s %6s  %6s %6s\n", title,
              samples.size(), "predictor", "ln P", "c50", "c80", "c90", "c99", ">.99", "tau",
              "calib", "pr us", "ob us");
  const Rng rng(seed + 1);
  Histograms all("histogram", [](const RequestFeatures&) { return std::string(); });
  Histograms bucket("prompt-length buckets", [](const RequestFeatures& f) {
    return std::to_string(
        std::lround(2 * std::log1p(static_cast<double>(f.prompt_tokens.count()))));
  });
  Histograms route("route histograms", [](const RequestFeatures& f) {
    return f.model + "\n" + f.route + "\n" + std::to_string(f.system_fingerprint);
  });
  for (Histograms* h : {&all, &bucket, &route}) print(h->name(), prequential(*h, samples, rng));
  const std::pair<const char*, predict::Output> outputs[] = {
      {"online, log-t", predict::Output::kLogT},
      {"online, binned", predict::Output::kBinned},
      {"online, mixture", predict::Output::kMixture}};
  for (const auto& [name, output] : outputs) {
    const auto online = predict::make_online_predictor({.output = output});
    print(name, prequential(*online, samples, rng));
  }
}

}  // namespace

// Usage: output_law_bench [DATA SET [MOST ANSWERS]]
int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  const std::size_t most = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : SIZE_MAX;
  const auto wanted = [&](std::string_view name) { return only.empty() || name == only; };
  if (wanted("arena_hard")) compare("arena_hard", arena_hard(), 1, most);
  if (wanted("gpteacher")) compare("gpteacher", gpteacher(), 1, most);
  if (wanted("oasst_model_eval")) compare("oasst_model_eval", oasst(), 1, most);
  return 0;
}
