// How does everything that a cycle remembers stand in one document?
//
// JSON, the same bytes for the same content. Version 2 has it all; version 1, only the learnt
// parameters as tune::ParameterStore writes them, is still read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "capacity/learners.h"
#include "capacity/steady_lengths.h"
#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/forecast.h"
#include "tailrace/capacity/slo.h"
#include "tailrace/capacity/stabilisation.h"

namespace tailrace::capacity {

/// What is remembered of a model.
struct ModelMemory {
  SloFreeze freeze;
  std::optional<SloTarget> slo;                ///< the last that traffic gave
  std::optional<queueing::Workload> workload;  ///< the same
  DemandHistory arrivals;
  SteadyLengths lengths;
  bool one_queue = false;              ///< as the gateway said last
  std::optional<double> idle_since_s;  ///< without a gap; empty: it is not known to be idle
  double seen_s = 0;
};

struct SavedCycle {
  tune::ParameterStore store;
  Learners::SavedLearners learners;
  std::map<ModelKey, ModelMemory> models;
  Stabiliser::Histories histories;
};

std::string to_json(const tune::ParameterStore& store, const Learners::SavedLearners& learners,
                    const std::map<ModelKey, ModelMemory>& models,
                    const Stabiliser::Histories& histories);
/// Errors: kDataLoss or kUnsupported saying what is wrong.
Result<SavedCycle> parse_saved_cycle(std::string_view document);

}  // namespace tailrace::capacity
