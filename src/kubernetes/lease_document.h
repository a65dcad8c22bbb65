// What does a Lease say, and what shall it say next? Private to src/kubernetes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::kubernetes {

struct LeaseRecord {
  std::string holder;     ///< "": nobody
  double duration_s = 0;  ///< that the holder asked for; 0: not told
  std::uint64_t transitions = 0;
  std::string acquire_time;  ///< as written
  std::string resource_version;
};
/// Errors: kDataLoss for what is no Lease.
Result<LeaseRecord> parse_lease(std::string_view document);

/// What a holder writes.
struct LeaseClaim {
  std::string holder;
  double lease_s = 15;
  std::uint64_t transitions = 0;
  std::string acquire_time, renew_time;
};
std::string new_lease(std::string_view ns, std::string_view name, const LeaseClaim& claim);
/// `document`, a Lease that parse_lease() took, with the claim in its spec; everything else stays.
std::string changed_lease(std::string_view document, const LeaseClaim& claim);

/// "2026-01-31T12:00:00.000000Z"; years 0 to 9999, clipped.
std::string micro_time(double unix_s);

}  // namespace tailrace::kubernetes
