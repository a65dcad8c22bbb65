#include "predict/support/generated_prompts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace tailrace::predict::testing {
namespace {

constexpr std::array<std::string_view, 16> kThings = {
    "the moon",      "a bicycle", "photosynthesis", "the river Nile", "sorting algorithms", "tea",
    "black holes",   "volcanoes", "chess openings", "a lighthouse",   "glaciers",           "jazz",
    "the telescope", "bread",     "tax law",        "migrating birds"};
constexpr std::array<std::string_view, 6> kLanguages = {"French", "German",  "Hindi",
                                                        "Korean", "Swahili", "Polish"};

struct Task {
  std::string_view opening;
  std::string_view closing;
  double median;
  double sigma;
  bool names_words;
};

constexpr std::array<Task, 7> kTasks = {{
    {"What is the origin of the word for ", "? Answer in one word.", 4, 0.3, false},
    {"When was the first book about ", " printed?", 25, 0.3, false},
    {"Translate into the named language: I like ", ".", 14, 0.25, false},
    {"Summarize what is known about ", " in a few sentences.", 90, 0.3, false},
    {"Write a Python function that draws ", " and test it.", 220, 0.4, false},
    {"Explain step by step, in detail, the history of ", ".", 520, 0.4, false},
    {"Write an essay about ", " of about ", 0, 0.15, true},
}};

std::string_view pick(Rng& rng, std::span<const std::string_view> items) {
  return items[rng.below(items.size())];
}

GeneratedRequest generate(Rng& rng) {
  const Task& task = kTasks[rng.below(kTasks.size())];
  std::string prompt(task.opening);
  prompt += pick(rng, kThings);
  prompt += task.closing;
  double median = task.median;
  if (task.names_words) {
    const int words = 50 << rng.below(5);
    prompt += std::to_string(words) + " words.";
    median = 1.3 * words;
  }
  if (rng.below(3) == 0) {
    prompt += " Please mention ";
    prompt += pick(rng, kLanguages);
    prompt += " readers.";
  }
  GeneratedRequest request;
  request.features.model = "model-a";
  request.features.route = "chat";
  request.features.prompt_head = prompt;
  request.features.prompt_tail = prompt;
  request.features.prompt_tokens = Tokens(static_cast<std::int64_t>(prompt.size() / 4));
  request.features.cap = Tokens(4096);
  const double length = median * std::exp(task.sigma * rng.student_t(3.5));
  request.length = std::clamp<std::int64_t>(std::llround(length), 1, 1'000'000);
  return request;
}

}  // namespace

std::vector<GeneratedRequest> generate_requests(Rng rng, std::size_t count) {
  std::vector<GeneratedRequest> requests;
  requests.reserve(count);
  for (std::size_t i = 0; i < count; ++i) requests.push_back(generate(rng));
  return requests;
}

std::vector<GeneratedRequest> with_lengths_permuted(std::vector<GeneratedRequest> requests,
                                                    Rng rng) {
  for (std::size_t i = requests.size(); i > 1; --i) {
    std::swap(requests[i - 1].length, requests[rng.below(i)].length);
  }
  return requests;
}

}  // namespace tailrace::predict::testing
