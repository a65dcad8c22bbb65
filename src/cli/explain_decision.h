// Why did the autoscaler decide so?
#pragma once

#include <optional>
#include <string>

namespace tailrace::cli {

struct DecisionQuestion {
  std::string from;                  ///< the autoscaler's database, or the address of its listener
  std::string variant;               ///< "": all
  std::optional<std::string> cycle;  ///< its number; empty: the latest
  bool json = false;
};

/// Prints the answer; gives the exit code.
int explain_decision(const DecisionQuestion& question);

}  // namespace tailrace::cli
