// How does one point of the service model look in a document and in a table?
#pragma once

#include <string>

#include "cli/json_object.h"
#include "tailrace/queueing/service_model.h"

namespace tailrace::cli {

/// Times, load and where they come from; percentiles in the corrected mode.
void add_latency_fields(JsonObject& document, const queueing::Latency& at, queueing::Mode mode);

/// Digits that a small rate keeps too.
std::string rate_figure(double per_s);

/// The same for people, a line each.
void print_latency_rows(const queueing::Latency& at, queueing::Mode mode);

/// Why the times should be checked, or nothing.
std::string doubt(const queueing::Latency& at);

/// The field `name`: why not to trust something, or null.
void add_doubt(JsonObject& document, std::string_view name, queueing::OutOfRange why);

}  // namespace tailrace::cli
