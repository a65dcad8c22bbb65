#include "schedule/slot_index.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace tailrace::schedule {
namespace {

/// Ids that differ in the top bits only start their search in the same cell, whatever the size.
JobId any_id() {
  const auto high = *rc::gen::inRange<std::uint64_t>(0, 12);
  const auto low = *rc::gen::inRange<std::uint64_t>(0, 6);
  return JobId{(high << 58) | low};
}

RC_GTEST_PROP(SlotIndexProperty, FindsWhatAMapFindsEvenWhenIdsCollide, ()) {
  SlotIndex index;
  std::map<JobId, Slot> reference;
  const int operations = *rc::gen::inRange(0, 300);
  for (int i = 0; i < operations; ++i) {
    const JobId id = any_id();
    if (reference.contains(id)) {
      index.erase(id);
      reference.erase(id);
    } else {
      index.insert(id, static_cast<Slot>(i));
      reference[id] = static_cast<Slot>(i);
    }
    for (std::uint64_t high = 0; high < 12; ++high) {
      for (std::uint64_t low = 0; low < 6; ++low) {
        const JobId asked{(high << 58) | low};
        const auto expected = reference.find(asked);
        const auto found = index.find(asked);
        RC_ASSERT(found.has_value() == (expected != reference.end()));
        if (found) RC_ASSERT(*found == expected->second);
      }
    }
  }
}

}  // namespace
}  // namespace tailrace::schedule
