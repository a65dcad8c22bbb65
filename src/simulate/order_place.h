// Where does the order of a cell's requests come from, and may it displace running ones?
#pragma once

#include <string>

#include "tailrace/simulate/experiment.h"

namespace tailrace::simulate {

struct OrderPlace {
  bool front = false;      ///< a queue in front of the engines, as in the gateway; else inside them
  bool displaces = false;  ///< may send running requests back; want of memory may do so anyway
};

OrderPlace order_place(const RunSpec& spec);

/// A line for each place that cells of the experiment have: whose order stands there.
std::string order_text(const Experiment& experiment);

}  // namespace tailrace::simulate
