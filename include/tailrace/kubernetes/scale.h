// How many replicas does a workload ask for, and how is that changed without undoing somebody
// else's change?
//
// The scale subresource of a Deployment, StatefulSet, LeaderWorkerSet or any other kind that has
// one. A change is made only where the workload still asks for what the decision started from;
// asking again for what is there already does nothing. Needs the verbs get and patch on
// `deployments/scale` and the like. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {

struct Scale {
  std::int64_t spec_replicas = 0;    ///< asked for
  std::int64_t status_replicas = 0;  ///< that exist, ready or not
  std::string selector;              ///< of their pods, as a query takes it; "": not told
  std::string resource_version;
};
/// Errors: kDataLoss for what is no Scale.
Result<Scale> parse_scale(std::string_view document);

/// `path`: "/apis/apps/v1/namespaces/NS/deployments/NAME/scale". Errors: those of the Api, and of
/// the status (kNotFound: no such object, or its kind has no scale).
[[nodiscard]] std::unique_ptr<ApiCall> read_scale(Api& api, std::string path,
                                                  UniqueFunction<void(Result<Scale>)> done);

struct ScaleChange {
  std::string path;
  std::int64_t from = 0;  ///< what the decision saw asked for
  std::int64_t to = 0;
};
struct ScaleOutcome {
  /// kAlready: `to` was asked for before us. kOvertaken: somebody asked for something else than
  /// `from` meanwhile; nothing was done.
  enum class Kind { kPatched, kAlready, kOvertaken } kind = Kind::kPatched;
  Scale scale;  ///< afterwards
};
/// Reads, compares, patches. A patch that meets a write to something else of the object is tried
/// again, a few times. Errors: as read_scale(); kInvalidArgument with the server's reason for a
/// number that it refuses. After kUnavailable and kDeadlineExceeded it may or may not have been
/// done: asking again finds out.
[[nodiscard]] std::unique_ptr<ApiCall> change_scale(
    Api& api, ScaleChange change, UniqueFunction<void(Result<ScaleOutcome>)> done);

}  // namespace tailrace::kubernetes
