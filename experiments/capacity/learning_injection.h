// What does an estimator do when the server changes, or when what it is told is no use?
#pragma once

#include <array>
#include <cstdio>
#include <vector>

#include "capacity/learning_runs.h"
#include "capacity/sections.h"

namespace tailrace::accuracy {

/// How many cycles until lambda* is within 15 % of the new truth, and stays there.
struct Followed {
  std::optional<int> cycles;
  double error_at_end = 0;
};

/// A server whose alpha doubles. No two reports in a row are the same run of it.
class Doubling {
 public:
  explicit Doubling(const Subject& subject);
  Followed follow(bool varying, Columns columns, double noise, std::uint64_t seed);

 private:
  Subject subject_;
  Truth before_, after_;
  std::array<SteadyServer, 2> servers_;
};

/// Something that must not move a parameter.
struct Bad {
  std::string name;
  std::vector<tune::Observation> cycle;
};
/// Cycles for an estimator that has seen `last` of this server.
std::vector<Bad> bad_cycles(const Subject& subject, const tune::Observation& last);

/// Tables of both. Returns how many limits they miss.
int print_injection(std::FILE* out, std::vector<Feeder>& feeders, const Options& options);

}  // namespace tailrace::accuracy
