// How good are the length predictors on real prompts, and what does that buy a queue?
//
// One pass, predict then learn, over public prompts with known answer lengths; what comes after the
// warm-up is scored. Then a queue of 32 slots at 1.5 times its capacity is served in the order of
// the predictions and compared with arrival order and with the true lengths. The control permutes
// the lengths among the prompts: whatever looks like skill there is not. Without the data it says
// so and ends.
#include <simdjson.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "predict/log_t_score.h"
#include "tailrace/core/rng.h"
#include "tailrace/predict/predictor.h"

namespace {

using namespace tailrace;
using predict::Observation;
using predict::Predictor;
using predict::RequestFeatures;

constexpr std::int64_t kCap = 2048;

struct Sample {
  RequestFeatures features;
  double length = 0;
  int set = 0;
};

// ---- data ---------------------------------------------------------------------------------------

std::filesystem::path data_folder() {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const std::filesystem::path root = shared != nullptr ? shared : TAILRACE_SOURCE_DIR "/../shared";
  return root / "data";
}

std::vector<std::string> gzip_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return lines;
  std::string line;
  char buffer[1 << 16];
  int got = 0;
  while ((got = gzread(file, buffer, sizeof(buffer))) > 0) {
    for (int i = 0; i < got; ++i) {
      if (buffer[i] == '\n') {
        lines.push_back(std::move(line));
        line.clear();
      } else {
        line.push_back(buffer[i]);
      }
    }
  }
  gzclose(file);
  return lines;
}

Sample make_sample(int set, std::string model, std::string_view prompt, std::int64_t prompt_tokens,
                   double length) {
  Sample sample;
  sample.set = set;
  sample.length = std::min(length, static_cast<double>(kCap));
  sample.features.model = std::move(model);
  sample.features.route = "chat";
  sample.features.prompt_head = prompt.substr(0, 512);
  sample.features.prompt_tail = prompt.size() > 512 ? prompt.substr(prompt.size() - 512) : prompt;
  sample.features.prompt_tokens = Tokens(prompt_tokens);
  sample.features.cap = Tokens(kCap);
  return sample;
}

std::string text_of(simdjson::dom::element object, const char* field) {
  return std::string{object[field].get_string().value()};
}

double number_of(simdjson::dom::element value) {
  return value.get_double().value();
}

std::int64_t integer_of(simdjson::dom::element object, const char* field) {
  return object[field].get_int64().value();
}

/// Calls `use` with each line of a gzipped file of JSON lines.
template <class Use>
void each_line(const char* file, Use use) {
  simdjson::dom::parser parser;
  for (const auto& line : gzip_lines(data_folder() / file)) use(parser.parse(line).value());
}

void read_gpteacher(std::vector<Sample>& out) {
  each_line("gpteacher/prompts_with_lengths.jsonl.gz", [&](simdjson::dom::element row) {
    const std::string set = text_of(row, "set");
    out.push_back(make_sample(set == "codegen"    ? 0
                              : set == "roleplay" ? 1
                                                  : 2,
                              "gpt-4", text_of(row, "prompt"), integer_of(row, "prompt_tokens"),
                              number_of(row["out_tokens"])));
  });
}

void read_arena_hard(std::vector<Sample>& out) {
  each_line("arena_hard/prompts_with_lengths.jsonl.gz", [&](simdjson::dom::element row) {
    for (const char* model : {"gpt-4-0314", "o3-mini-2025-01-31"}) {
      simdjson::dom::element tokens;
      if (row["out"][model].get(tokens) != simdjson::SUCCESS) continue;
      out.push_back(make_sample(3, model, text_of(row, "prompt"), integer_of(row, "prompt_tokens"),
                                number_of(tokens)));
    }
  });
}

void read_oasst(std::vector<Sample>& out) {
  struct Prompt {
    std::string text;
    std::int64_t tokens = 0;
  };
  std::map<std::string, Prompt, std::less<>> prompts;
  each_line("oasst_model_eval/prompts.jsonl.gz", [&](simdjson::dom::element row) {
    prompts[std::to_string(integer_of(row, "id"))] = {text_of(row, "prompt"),
                                                      integer_of(row, "prompt_tokens")};
  });
  // One answer for each prompt: of the model that answered most of them, else of the first that
  // did.
  const std::string widest = "dvruette/oasst-pythia-12b-6000-steps";
  std::map<std::string, Sample, std::less<>> answered;
  each_line("oasst_model_eval/output_lengths.jsonl.gz", [&](simdjson::dom::element row) {
    const std::string model = text_of(row, "model");
    const simdjson::dom::object answers = row["out_tokens"].get_object().value();
    for (const auto& [id, tokens] : answers) {
      const auto prompt = prompts.find(id);
      if (prompt == prompts.end()) continue;
      const auto before = answered.find(id);
      if (before != answered.end() &&
          (model != widest || before->second.features.model == widest)) {
        continue;
      }
      answered[std::string(id)] = make_sample(4, model, prompt->second.text, prompt->second.tokens,
                                              number_of(tokens.at(0)));
    }
  });
  for (auto& [id, sample] : answered) out.push_back(std::move(sample));
}

template <class T>
void shuffle(std::vector<T>& items, Rng& rng) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[rng.below(i)]);
}

// ---- scores -------------------------------------------------------------------------------------

Observation observed(const Sample& sample) {
  return {Tokens(std::llround(sample.length)), sample.length >= static_cast<double>(kCap)};
}

struct Judged {
  Sample sample;
  length::LengthLaw law;
  double mu = 0;  // ln of the law's median
  bool calibrated = false;
};

struct Timing {
  double predict_us = 0;
  double observe_us = 0;
};

/// Of this thread, so that a busy machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<Judged> prequential(Predictor& predictor, const std::vector<Sample>& samples,
                                std::size_t warm_up, std::string& image, Timing& timing) {
  std::vector<Judged> judged;
  double predict_s = 0;
  double observe_s = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = samples[i];
    if (i == warm_up) image = predictor.save();
    const double start_s = cpu_seconds();
    const auto prediction = predictor.predict(std::span(&sample.features, 1)).front();
    const double predicted_s = cpu_seconds();
    predictor.observe(sample.features, observed(sample));
    observe_s += cpu_seconds() - predicted_s;
    predict_s += predicted_s - start_s;
    if (i >= warm_up)
      judged.push_back(
          {sample, prediction.law, std::log(prediction.law.median()), prediction.calibrated});
  }
  const double n = static_cast<double>(samples.size());
  timing = {1e6 * predict_s / n, 1e6 * observe_s / n};
  return judged;
}

/// Prompt-length buckets: what a scheduler without a text model can do.
class BucketPredictor final : public Predictor {
 public:
  std::string_view name() const override { return "prompt-length buckets"; }
  std::vector<predict::Prediction> predict(std::span<const RequestFeatures> batch) override {
    return prior_->predict(bucketed(batch));
  }
  void observe(const RequestFeatures& features, const Observation& observation) override {
    prior_->observe(bucketed(std::span(&features, 1)).front(), observation);
  }
  std::string save() const override { return prior_->save(); }
  Result<void> load(std::string_view image) override { return prior_->load(image); }

 private:
  static std::vector<RequestFeatures> bucketed(std::span<const RequestFeatures> batch) {
    std::vector<RequestFeatures> out(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const double tokens = static_cast<double>(batch[i].prompt_tokens.count());
      out[i].model = std::to_string(std::lround(2 * std::log1p(tokens)));
    }
    return out;
  }
  std::unique_ptr<Predictor> prior_ = predict::make_prior_predictor();
};

/// Everything in one group.
class GlobalPredictor final : public Predictor {
 public:
  std::string_view name() const override { return "one law for all"; }
  std::vector<predict::Prediction> predict(std::span<const RequestFeatures> batch) override {
    return prior_->predict(std::vector<RequestFeatures>(batch.size()));
  }
  void observe(const RequestFeatures&, const Observation& observation) override {
    prior_->observe({}, observation);
  }
  std::string save() const override { return prior_->save(); }
  Result<void> load(std::string_view image) override { return prior_->load(image); }

 private:
  std::unique_ptr<Predictor> prior_ = predict::make_prior_predictor();
};

struct Quality {
  double log_score = 0, pinball = 0, r2 = 0, pair_accuracy = 0, calibrated = 0;
  double coverage[4] = {};
};

constexpr double kCoverages[] = {0.5, 0.8, 0.9, 0.99};

Quality measure(const std::vector<Judged>& judged) {
  Quality q;
  const double n = static_cast<double>(judged.size());
  double mean = 0;
  for (const auto& j : judged) mean += predict::log_length(j.sample.length) / n;
  double total = 0;
  double residual = 0;
  for (const auto& j : judged) {
    const double y = predict::log_length(j.sample.length);
    const double x = std::exp(y);
    const bool censored = j.sample.length >= static_cast<double>(kCap);
    // Of ln length, as the models learn it.
    q.log_score += std::log(censored ? j.law.survival(x) : x * j.law.density(x)) / n;
    for (const double p : {0.1, 0.25, 0.5, 0.75, 0.9}) {
      const double gap = y - std::log(j.law.quantile(p));
      q.pinball += std::max(p * gap, (p - 1) * gap) / (5 * n);
    }
    for (int c = 0; c < 4; ++c) {
      if (std::abs(j.law.survival(x) - 0.5) <= kCoverages[c] / 2) q.coverage[c] += 1 / n;
    }
    total += (y - mean) * (y - mean);
    residual += (y - j.mu) * (y - j.mu);
    q.calibrated += j.calibrated ? 1 / n : 0;
  }
  q.r2 = 1 - residual / total;
  double right = 0;
  double pairs = 0;
  for (std::size_t a = 0; a < judged.size(); a += 3) {
    for (std::size_t b = 0; b < a; b += 3) {
      const double truth = judged[a].sample.length - judged[b].sample.length;
      const double said = judged[a].mu - judged[b].mu;
      if (truth == 0) continue;
      pairs += 1;
      right += said == 0 ? 0.5 : (truth > 0) == (said > 0) ? 1 : 0;
    }
  }
  q.pair_accuracy = right / pairs;
  return q;
}

// ---- queue --------------------------------------------------------------------------------------

/// Mean of (completion − arrival) / length over jobs served by 32 slots at 1.5 times their
/// capacity; one token a step, no preemption. `key(i)` places job i when it arrives, `done(i)`
/// hears its end in time.
template <class Key, class Done>
double mean_per_token_latency(const std::vector<Sample>& jobs, std::uint64_t seed, Key key,
                              Done done) {
  constexpr std::size_t kSlots = 32;
  constexpr double kLoad = 1.5;
  double mean = 0;
  for (const auto& job : jobs) mean += job.length / static_cast<double>(jobs.size());
  Rng rng(seed);
  std::vector<double> arrival(jobs.size());
  double t = 0;
  for (double& a : arrival) a = t += rng.exponential() * mean / (kSlots * kLoad);

  std::set<std::pair<double, std::size_t>> running;  // by end
  std::set<std::pair<double, std::size_t>> waiting;  // by key, then arrival
  std::size_t next = 0;
  double sum = 0;
  while (next < jobs.size() || !running.empty()) {
    const bool ends =
        next == jobs.size() || (!running.empty() && running.begin()->first <= arrival[next]);
    const double now = ends ? running.begin()->first : arrival[next];
    if (ends) {
      const std::size_t job = running.begin()->second;
      running.erase(running.begin());
      sum += (now - arrival[job]) / jobs[job].length;
      done(job);
    } else {
      waiting.emplace(key(next), next);
      ++next;
    }
    while (running.size() < kSlots && !waiting.empty()) {
      const std::size_t job = waiting.begin()->second;
      waiting.erase(waiting.begin());
      running.emplace(now + jobs[job].length, job);
    }
  }
  return sum / static_cast<double>(jobs.size());
}

double tie_score(const length::LengthLaw& law) {
  const auto moments = law.capped_moments_fast(static_cast<double>(kCap));
  constexpr double kBeta = 0.5;  // a long queue
  return moments.mean + kBeta * moments.cvar;
}

struct Gain {
  double ratio = 1;  // arrival order / this order
  double share = 0;  // of the logarithmic gain of the true order
};

/// The predictor goes on learning while the queue runs: from each answer when it ends, in the order
/// that it brought about itself. A law that is not calibrated counts as long as the cap, so those
/// jobs keep their order of arrival.
template <class Score>
Gain queue_gain(const std::string& image, Predictor& predictor, const std::vector<Sample>& jobs,
                Score score) {
  const auto nothing = [](std::size_t) {};
  std::vector<double> ratios;
  std::vector<double> shares;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    if (!predictor.load(image)) std::abort();
    const double fcfs = mean_per_token_latency(
        jobs, seed, [](std::size_t i) { return static_cast<double>(i); }, nothing);
    const double ideal =
        mean_per_token_latency(jobs, seed, [&](std::size_t i) { return jobs[i].length; }, nothing);
    const double ours = mean_per_token_latency(
        jobs, seed,
        [&](std::size_t i) {
          const auto said = predictor.predict(std::span(&jobs[i].features, 1)).front();
          return said.calibrated ? score(said.law) : 10.0 * kCap;
        },
        [&](std::size_t i) { predictor.observe(jobs[i].features, observed(jobs[i])); });
    ratios.push_back(fcfs / ours);
    shares.push_back(std::log(fcfs / ours) / std::log(fcfs / ideal));
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(shares.begin(), shares.end());
  return {ratios[2], shares[2]};
}

// ---- report -------------------------------------------------------------------------------------

void report(Predictor& predictor, const std::vector<Sample>& samples, std::size_t warm_up) {
  Timing timing;
  std::string image;  // as learned from the warm-up
  const auto judged = prequential(predictor, samples, warm_up, image, timing);
  const Quality q = measure(judged);
  const auto scored = static_cast<std::ptrdiff_t>(warm_up);
  const std::vector<Sample> jobs(samples.begin() + scored, samples.end());
  const Gain tie = queue_gain(image, predictor, jobs, tie_score);
  const Gain median =
      queue_gain(image, predictor, jobs, [](const length::LengthLaw& law) { return law.median(); });
  std::printf(
      "  %-22s %7.3f %7.3f  %4.1f %4.1f %4.1f %4.1f  %6.3f %6.3f %5.2f  %5.2f %5.2f  %5.2f %5.2f  "
      "%5.1f %5.1f\n",
      std::string(predictor.name()).c_str(), q.log_score, q.pinball, 100 * q.coverage[0],
      100 * q.coverage[1], 100 * q.coverage[2], 100 * q.coverage[3], q.r2, q.pair_accuracy,
      q.calibrated, tie.ratio, tie.share, median.ratio, median.share, timing.predict_us,
      timing.observe_us);
}

void compare(const char* title, std::vector<Sample> samples, std::size_t warm_up) {
  std::printf("%s: %zu prompts, the last %zu scored\n", title, samples.size(),
              samples.size() - warm_up);
  std::printf("  %-22s %7s %7s  %4s %4s %4s %4s  %6s %6s %5s  %5s %5s  %5s %5s  %5s %5s\n",
              "predictor", "log sc", "pinball", "c50", "c80", "c90", "c99", "R2", "pairs", "calib",
              "tie x", "share", "med x", "share", "pr us", "ob us");
  GlobalPredictor global;
  BucketPredictor buckets;
  report(global, samples, warm_up);
  report(buckets, samples, warm_up);
  report(*predict::make_prior_predictor(), samples, warm_up);
  report(*predict::make_online_predictor(), samples, warm_up);
}

std::vector<Sample> one_model(std::vector<Sample> samples) {
  for (auto& sample : samples) sample.features.model = "served-model";
  return samples;
}

std::vector<Sample> permuted(std::vector<Sample> samples, Rng rng) {
  for (std::size_t i = samples.size(); i > 1; --i) {
    std::swap(samples[i - 1].length, samples[rng.below(i)].length);
  }
  return samples;
}

}  // namespace

int main() {
  std::vector<Sample> all;
  read_gpteacher(all);
  read_arena_hard(all);
  read_oasst(all);
  if (all.empty()) {
    std::printf("skipped: no prompts under %s (set TAILRACE_SHARED)\n", data_folder().c_str());
    return 0;
  }
  Rng rng(20);
  shuffle(all, rng);
  std::vector<Sample> balanced;
  std::map<int, int> taken;
  for (const auto& sample : all) {
    const int limit = sample.set <= 2 ? 300 : 900;
    if (++taken[sample.set] <= limit) balanced.push_back(sample);
  }
  shuffle(balanced, rng);
  const std::size_t warm = balanced.size() / 2;
  compare("balanced, models named", balanced, warm);
  compare("balanced, one model", one_model(balanced), warm);
  compare("balanced, one model, short warm-up", one_model(balanced), 400);
  compare("balanced, one model, lengths permuted",
          permuted(one_model(balanced), rng.fork("permute")), warm);
  compare("all, one model", one_model(all), all.size() - 2000);
  return 0;
}
