#include "predict/prompt_cues.h"

#include <algorithm>
#include <array>

#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

struct CueClass {
  std::string_view name;
  std::string_view words;  // in lower case, by single spaces
};

constexpr CueClass kClasses[] = {
    {"asks for a fact", "what who when where which whose is are was were does did do can"},
    {"asks for reasons", "why how explain describe discuss compare analyze"},
    {"asks to make something",
     "write create compose generate draft make build develop design implement"},
    {"asks for a long text",
     "story essay poem article blog letter speech chapter song script novel report plan guide "
     "tutorial"},
    {"asks for a list", "list name give suggest ideas examples"},
    {"asks to change a text", "translate rephrase correct rewrite convert edit fix"},
    {"asks to condense a text", "summarize summarise summary classify extract"},
    {"asks for code",
     "code function program python javascript java sql html class method algorithm"},
    {"asks for brevity", "briefly short brief concise sentence word yes no shortly quick quickly"},
    {"asks for detail",
     "detailed detail comprehensive thorough step steps depth long elaborate thoroughly complete"},
    {"small talk", "hi hello hey thanks thank"},
};

/// Open addressing: a look-up for each word of a prompt must cost next to nothing.
class CueTable {
 public:
  CueTable() {
    for (std::size_t i = 0; i < std::size(kClasses); ++i) {
      std::string_view words = kClasses[i].words;
      while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        insert(stable_hash(words.substr(0, end)), static_cast<int>(i + 1));
        words.remove_prefix(std::min(end + 1, words.size()));
      }
    }
  }
  int find(std::uint64_t hash) const { return slots_[slot_of(hash)].cue; }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    int cue = 0;
  };
  std::size_t slot_of(std::uint64_t hash) const {
    std::size_t i = hash % slots_.size();
    while (slots_[i].cue != 0 && slots_[i].hash != hash) i = (i + 1) % slots_.size();
    return i;
  }
  void insert(std::uint64_t hash, int cue) { slots_[slot_of(hash)] = {hash, cue}; }

  std::array<Slot, 512> slots_;  // sparse: about 100 words
};

}  // namespace

int cue_of(std::uint64_t word_hash) {
  static const CueTable table;
  return table.find(word_hash);
}

std::string_view cue_name(int cue) {
  return kClasses[static_cast<std::size_t>(cue - 1)].name;
}

}  // namespace tailrace::predict
