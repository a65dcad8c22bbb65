// Which models can a client ask for?
//
// The gateway's /v1/models is what its engines listed in theirs, one entry per id, in the order of
// backend names; a configured model that no engine listed (yet) gets an entry of the gateway's own.
// Pure functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/backends.h"

namespace tailrace::gateway {

/// The `data` array of an engine's /v1/models answer, as JSON text; nothing if it is not such an
/// answer.
std::optional<std::string> models_data(std::string_view answer);

/// The ids in such a `data` array.
std::vector<std::string> model_ids(std::string_view data);

/// The merged answer. Only models that some backend serves through the gateway appear, and those
/// that are `awaited`.
std::string merged_models(const std::vector<std::shared_ptr<Backend>>& backends,
                          const std::vector<std::string>& awaited);

/// One model's entry of the merged answer, for /v1/models/{id}.
std::optional<std::string> merged_model(const std::vector<std::shared_ptr<Backend>>& backends,
                                        const std::vector<std::string>& awaited,
                                        std::string_view id);

}  // namespace tailrace::gateway
