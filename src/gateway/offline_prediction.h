// What would the predictor say to a request that nobody sends?
//
// For the admin listener's question, and for the command line that has only the configuration and
// the file in which a gateway keeps what it has learned. Pure but for reading that file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/gateway/config.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::gateway {

/// The predictor that a configuration names, with nothing learned.
std::unique_ptr<predict::Predictor> make_predictor(const PredictConfig& config);

/// The features of an OpenAI request; the route follows from its members. Errors: kInvalidArgument
/// naming the field, or that none of messages, prompt and input is there.
Result<predict::RequestFeatures> features_of(std::string_view body, std::string_view tenant,
                                             const Config& config);

/// The document of POST /tailrace/v1/predict from `config`'s predictor with what its model file
/// holds; without a model file the predictor knows nothing yet. Errors: those of `features_of`, and
/// kNotFound, kDataLoss, kUnsupported of the file.
Result<std::string> predict_offline(std::string_view body, std::string_view tenant,
                                    const Config& config);

}  // namespace tailrace::gateway
