// Which engine gets a request, where no dispatcher stands in front?
//
// A Router counts what it sent and what has ended, like a dispatcher does, and uses its rules
// (dispatch/backend_choice.h); what engines report it knows only as of their last report. One
// thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "simulate/server.h"
#include "tailrace/dispatch/backend_choice.h"

namespace tailrace::simulate {

class Router {
 public:
  /// `spec` and `engines` have passed the run's checks.
  Router(const FrontSpec& spec, const FleetSpec& fleet);

  /// The choice depends on what has ended: every end up to now must have been settled.
  bool counts_ends() const { return spec_.choice != FrontSpec::Choice::kRoundRobin; }
  /// It depends on reports. Those of an instant are taken after its ends, before its arrivals.
  bool reads_reports() const { return spec_.choice == FrontSpec::Choice::kLeastReported; }

  std::size_t pick(const Live& live, MonoTime now);
  void sent(std::size_t engine, Live& live);
  void law_arrived(Live& live);
  void ended(const Live& live);
  void report(const std::vector<std::unique_ptr<Server>>& servers, MonoTime now);

  /// Over all picks by reports, the age of the oldest one; nothing before the first pick.
  std::optional<double> mean_report_age_s() const;
  std::optional<double> max_report_age_s() const;

 private:
  struct Report {
    MonoTime at;
    std::int64_t requests = 0;
    double kv_share = 0;
  };

  void note_age(MonoTime now);
  std::size_t pick_by_reports() const;

  FrontSpec spec_;
  dispatch::BackendChoice rule_ = dispatch::BackendChoice::kRoundRobin;
  std::vector<dispatch::BackendLoad> loads_;
  std::vector<Report> reports_;
  std::int64_t outstanding_ = 0;
  std::int64_t slots_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t picks_by_reports_ = 0;
  double report_ages_s_ = 0;  // summed over these picks
  Duration oldest_report_{0};
};

}  // namespace tailrace::simulate
