// What may be sent to a server but shown to nobody? Private to src/observe.
#pragma once

#include <string>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/observe/prometheus_api.h"

namespace tailrace::observe {

/// The token now: "" where none is configured. Errors: kInvalidArgument when it is not there, empty
/// or no text for a header.
Result<std::string> read_bearer_token(const PrometheusConfig& config);

/// `text` with each of the secrets replaced: a server may repeat what it was sent.
std::string without_secrets(std::string text, const std::vector<std::string>& secrets);

}  // namespace tailrace::observe
