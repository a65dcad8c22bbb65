// Series as a scraper would bring them, written down shortly.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tailrace/observe/observer.h"
#include "tailrace/observe/source.h"

namespace tailrace::observe::testing {

inline constexpr double kNow = 1'000'000;

/// Collects points; `fetched()` gives them as one fetch.
class Scrapes {
 public:
  void add(double time_s, const std::string& name, const Labels& labels, double value);
  /// Text exposition as an exporter writes it, with a target's labels added.
  void add_text(double time_s, std::string_view text, const Labels& target);
  /// A histogram's series: counts for each edge (not cumulative), and the sum.
  void add_histogram(double time_s, const std::string& name, const Labels& labels,
                     const std::vector<std::pair<std::string, double>>& counts, double sum);
  Fetched fetched() const;

 private:
  std::map<SeriesKey, std::vector<Point>> points_;
};

Labels pod_labels(const std::string& ns, const std::string& pod, const std::string& model = {});
Labels with(Labels labels, const std::string& name, const std::string& value);
ExpectedVariant variant(const std::string& ns, const std::string& name, const std::string& model,
                        const std::vector<std::string>& pods,
                        EngineKind engine = EngineKind::kVllm);
/// One pod of vLLM, llama-0, of the variant llama.
std::vector<ExpectedVariant> llama();
/// What these points come to at `kNow` for an observer that has seen nothing before.
Reading read_once(const Scrapes& scrapes, const std::vector<ExpectedVariant>& expected = llama());
/// The only pod of the only variant; fails the test where there is none.
const PodReading& only_pod(const Reading& reading);
/// How many conditions of a kind there are.
int count(const Reading& reading, ConditionKind kind);
/// The first condition of a kind, "subject: message"; empty where there is none.
std::string said(const Reading& reading, ConditionKind kind);

}  // namespace tailrace::observe::testing
