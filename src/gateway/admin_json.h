// How does the gateway's state look as JSON? Pure functions, for the admin listener.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/admin.h"
#include "gateway/backends.h"
#include "gateway/history.h"
#include "tailrace/dispatch/dispatcher.h"
#include "tailrace/gateway/prediction_runner.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::gateway {

std::string queue_json(const dispatch::Dispatcher& dispatcher,
                       const AdminActions::PolicyState& policy, MonoTime now, std::size_t jobs_max);
std::string backends_json(const dispatch::Dispatcher& dispatcher, const Backends& backends,
                          MonoTime now);
/// Nothing if there is no such backend.
std::optional<std::string> backend_json(const dispatch::Dispatcher& dispatcher,
                                        const Backends& backends, std::string_view name,
                                        MonoTime now);
std::string policy_json(const AdminActions::PolicyState& policy);
std::string explain_json(const RequestRecord& record, const Result<dispatch::Explanation>& place,
                         const AdminActions::PolicyState& policy, MonoTime now);
/// `orders`: would the law decide the request's place?
std::string prediction_json(const predict::RequestFeatures& features,
                            const ExplainedPrediction& answer, bool orders);

}  // namespace tailrace::gateway
