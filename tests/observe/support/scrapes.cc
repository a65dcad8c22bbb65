#include "observe/support/scrapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace tailrace::observe::testing {

void Scrapes::add(double time_s, const std::string& name, const Labels& labels, double value) {
  points_[{name, labels}].push_back({time_s, value});
}

void Scrapes::add_text(double time_s, std::string_view text, const Labels& target) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == '=') continue;
    const auto brace = line.find('{');
    const auto space = line.rfind(' ');
    Labels labels = target;
    if (brace != std::string::npos) {
      std::size_t at = brace + 1;
      while (line[at] != '}') {
        const auto equals = line.find('=', at);
        const auto quote = line.find('"', equals + 2);
        labels[line.substr(at, equals - at)] = line.substr(equals + 2, quote - equals - 2);
        at = quote + 1 + (line[quote + 1] == ',' ? 1 : 0);
      }
    }
    add(time_s, line.substr(0, std::min(brace, space)), labels,
        std::strtod(line.c_str() + space + 1, nullptr));
  }
}

void Scrapes::add_histogram(double time_s, const std::string& name, const Labels& labels,
                            const std::vector<std::pair<std::string, double>>& counts, double sum) {
  double total = 0;
  for (const auto& [edge, count] : counts) {
    total += count;
    add(time_s, name + "_bucket", with(labels, "le", edge), total);
  }
  add(time_s, name + "_count", labels, total);
  add(time_s, name + "_sum", labels, sum);
}

Fetched Scrapes::fetched() const {
  Fetched out;
  for (const auto& [key, points] : points_) out.series.push_back({key, points});
  return out;
}

Labels pod_labels(const std::string& ns, const std::string& pod, const std::string& model) {
  Labels out{{"namespace", ns}, {"pod", pod}, {"instance", pod + ".local:8000"}};
  if (!model.empty()) out["model_name"] = model;
  return out;
}

Labels with(Labels labels, const std::string& name, const std::string& value) {
  labels[name] = value;
  return labels;
}

ExpectedVariant variant(const std::string& ns, const std::string& name, const std::string& model,
                        const std::vector<std::string>& pods, EngineKind engine) {
  ExpectedVariant out{ns, model, name, {}, engine, {}};
  for (const auto& pod : pods) out.pods.push_back({pod, ""});
  return out;
}

std::vector<ExpectedVariant> llama() {
  return {variant("llm", "llama", "llama", {"llama-0"})};
}

Reading read_once(const Scrapes& scrapes, const std::vector<ExpectedVariant>& expected) {
  return Observer({}).read(kNow, scrapes.fetched(), expected);
}

const PodReading& only_pod(const Reading& reading) {
  static const PodReading kNone;
  EXPECT_EQ(reading.variants.size(), 1U);
  if (reading.variants.size() != 1) return kNone;
  EXPECT_EQ(reading.variants.front().pods.size(), 1U);
  return reading.variants.front().pods.empty() ? kNone : reading.variants.front().pods.front();
}

int count(const Reading& reading, ConditionKind kind) {
  return static_cast<int>(std::count_if(reading.conditions.begin(), reading.conditions.end(),
                                        [&](const Condition& c) { return c.kind == kind; }));
}

std::string said(const Reading& reading, ConditionKind kind) {
  for (const auto& c : reading.conditions) {
    if (c.kind == kind) return c.subject + ": " + c.message;
  }
  return {};
}

}  // namespace tailrace::observe::testing
