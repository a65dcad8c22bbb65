// What do the exporters themselves say right now?
//
// Reads each target's page of metrics, many at once, within a time-out for each and one over all. A
// target that answers anything but such a page is a problem with its name; the others are used.
// Without a Prometheus server there is no past: who wants rates keeps what came before.
#pragma once

#include <memory>

#include "tailrace/net/http_client.h"
#include "tailrace/observe/exposition.h"
#include "tailrace/observe/source.h"

namespace tailrace::observe {

struct ScrapeConfig {
  std::size_t parallel_max = 16;                       ///< targets that are read at once
  Duration target_timeout = std::chrono::seconds(5);   ///< from connect to last byte
  Duration total_timeout = std::chrono::seconds(10);   ///< over all targets
  std::size_t page_bytes_max = std::size_t{16} << 20;  ///< of one target
  std::size_t series_max = 200'000;                    ///< that are wanted, of one target
  /// Problems that are told of one target; the last one counts those beyond.
  std::size_t problems_max = 5;
};

class ScrapeSource final : public Source {
 public:
  /// Loop and network must outlive it.
  ScrapeSource(net::EventLoop& loop, net::Network& network, ScrapeConfig config = {});
  ~ScrapeSource() override;

  /// `reached` and `missed` name the targets, in their order. Points carry the time at which their
  /// target was asked. Only `failed` when there are targets and none was reached.
  void fetch(double now_s, const Wanted& wanted, UniqueFunction<void(Fetched)> done) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::observe
