// Prints docs/capacity-accuracy.md. Exits 1 if a stated limit is missed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "capacity/sections.h"

int main(int argc, char** argv) {
  CLI::App app("Prints docs/capacity-accuracy.md, or one section of it");
  std::string only;
  tailrace::accuracy::Options options;
  app.add_option("--only", only, "latency, learning or measured")
      ->check(CLI::IsMember({"latency", "learning", "measured"}));
  app.add_flag("--quick", options.quick, "Short runs of one seed: does it work at all?");
  CLI11_PARSE(app, argc, argv);
  int missed = 0;
  if (only.empty()) {
    std::puts(
        "# How accurate the capacity analyzer is\n\n"
        "Printed by `make accuracy`. Nothing here is timed; the numbers do not depend on the "
        "machine.\n");
  }
  if (only.empty() || only == "latency")
    missed += tailrace::accuracy::print_latency(stdout, options);
  if (only.empty() || only == "learning") {
    missed += tailrace::accuracy::print_learning(stdout, options);
  }
  if (only.empty() || only == "measured") {
    missed += tailrace::accuracy::print_measured(stdout, options);
  }
  std::fflush(stdout);
  if (missed > 0) std::fprintf(stderr, "capacity_accuracy: %d stated limits missed\n", missed);
  return missed > 0 ? 1 : 0;
}
