#include "autoscaler/kept_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tailrace::autoscaler {
namespace {

using capacity::Config;
using capacity::ConfigEntry;
using capacity::ConfigProblem;

/// A text that differs where two trees do.
void flatten(const core::YamlNode& node, std::string& into) {
  into += fmt::format("{}:{}:{}", static_cast<int>(node.kind), node.text.size(), node.text);
  for (const auto& item : node.items) flatten(item, into);
  for (const auto& [key, value] : node.members) {
    into += fmt::format("{}:{}", key.size(), key);
    flatten(value, into);
  }
  into += ';';
}

std::string signature_of(const ConfigEntry& entry) {
  std::string text =
      fmt::format("{}:{}:{}:{}", entry.name.size(), entry.name, entry.yaml.size(), entry.yaml);
  if (entry.tree) flatten(*entry.tree, text);
  return text;
}

bool same(const ConfigEntry& a, const ConfigEntry& b) {
  return signature_of(a) == signature_of(b);
}

}  // namespace

KeptEntries::KeptEntries(std::string origin) : origin_(std::move(origin)) {
  settings_.config = Config::inactive(origin_ + " has not been read yet");
  settings_.condition = origin_ + " has not been read yet";
}

void KeptEntries::take(std::vector<ConfigEntry> entries) {
  if (const auto foreign = capacity::foreign_entries(entries)) {
    keep(fmt::format("{}: {}", origin_, *foreign));
    return;
  }
  // Of two entries for one model the later is refused: let it be the newer.
  entries = newest_last(std::move(entries));
  std::vector<ConfigProblem> refused;
  auto config = Config::of_entries(entries, origin_);
  for (bool again = true; again;) {
    again = false;
    for (const auto& problem : config.problems()) {
      if (!replace_or_leave_out(problem, entries)) continue;
      const bool kept = good_.contains(problem.entry);
      refused.push_back({problem.entry,
                         problem.message + (kept ? "; its last good version stays in force"
                                                 : "; it is left out, the other stays in force"),
                         problem.duplicate});
      again = true;
    }
    if (again) config = Config::of_entries(entries, origin_);
  }
  settings_.problems = std::move(refused);
  std::map<std::string, const ConfigProblem*> wrong;
  for (const auto& problem : config.problems()) {
    wrong[problem.entry] = &problem;
    settings_.problems.push_back(problem);
  }
  good_.clear();
  std::string signature;
  for (const auto& entry : entries) {
    if (!wrong.contains(entry.name)) good_.emplace(entry.name, entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const ConfigEntry& a, const ConfigEntry& b) { return a.name < b.name; });
  for (const auto& entry : entries) signature += signature_of(entry);
  std::string condition;
  if (!config.active()) {
    condition = origin_ + " has no `default` entry: the analyzer is inactive, replicas are held";
  }
  enforce(std::move(config), std::move(signature), std::move(condition));
}

/// Puts the last good version in a wrong entry's place. False if there is none, so that the entry
/// stays and holds the models that it names.
bool KeptEntries::replace_or_leave_out(const ConfigProblem& problem,
                                       std::vector<ConfigEntry>& use) {
  const auto at = std::find_if(use.begin(), use.end(), [&](const ConfigEntry& entry) {
    return entry.name == problem.entry;
  });
  if (at == use.end()) return false;
  const auto known = good_.find(problem.entry);
  if (known != good_.end()) {
    if (same(known->second, *at)) return false;
    *at = known->second;
    return true;
  }
  // A newcomer may not push aside what was in force.
  if (!problem.duplicate || good_.empty()) return false;
  use.erase(at);
  return true;
}

std::vector<ConfigEntry> KeptEntries::newest_last(std::vector<ConfigEntry> entries) const {
  std::vector<ConfigEntry> ordered, fresh;
  for (auto& entry : entries) {
    const auto known = good_.find(entry.name);
    const bool old = known != good_.end() && same(known->second, entry);
    (old ? ordered : fresh).push_back(std::move(entry));
  }
  std::move(fresh.begin(), fresh.end(), std::back_inserter(ordered));
  return ordered;
}

void KeptEntries::keep(const std::string& why) {
  settings_.condition = why;
  if (settings_.version > 0) {
    settings_.condition += "; what was in force before stays in force";
    return;
  }
  settings_.config = Config::inactive(why);
}

void KeptEntries::drop(const std::string& why) {
  good_.clear();
  settings_.problems.clear();
  enforce(Config::inactive(why), "gone", why + ": the analyzer is inactive, replicas are held");
}

void KeptEntries::enforce(Config config, std::string signature, std::string condition) {
  settings_.changed = settings_.version == 0 || signature != signature_;
  if (settings_.changed) {
    ++settings_.version;
    settings_.config = std::move(config);
    signature_ = std::move(signature);
  }
  settings_.condition = std::move(condition);
}

}  // namespace tailrace::autoscaler
