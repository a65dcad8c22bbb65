// Which requests are sent, and when?
//
// A workload is a list of requests, read from JSON lines or drawn from a named synthetic law, and a
// list of arrival times, drawn from a Poisson process or read from a trace. Same seed, same
// workload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"

namespace tailrace::loadgen {

/// A log-t law of the answer's length that the request carries: ln X = mu + sigma·T(nu).
struct GivenLaw {
  double mu = 0;
  double sigma = 1;
  double nu = 3.5;
};

/// One line of a request file:
/// {"id", "prompt" or "messages", "max_tokens"?, "output_tokens"?, "law": {"mu","sigma","nu"?}?,
///  "arrival_s"?, "fields": {…}?}; `fields` go into the body as they are. What else a trace of
/// tailrace's own may say (docs/traces.md) is passed over.
struct LoadRequest {
  std::string id;
  std::string messages_json;  ///< a JSON list of chat messages
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> output_tokens;  ///< the true length, for an emulated engine
  std::optional<GivenLaw> law;
  std::optional<double> arrival_s;
  std::string fields_json;  ///< a JSON object, or empty
};

/// Errors: kInvalidArgument with the line number and what is wrong; also when there is no request.
Result<std::vector<LoadRequest>> parse_requests(std::string_view jsonl);
/// The same request as a line, without line feed.
std::string to_json_line(const LoadRequest& request);

/// "heavy-tail[:key=value,…]": per request mu ~ N(mu, mu_sd), sigma log-normal with the given
/// median and standard deviation of the logarithm, length min(cap, max(1, ceil X)) with ln X = mu +
/// sigma·T(nu), a prompt of a few words. Keys and defaults: mu=4.6, mu_sd=0.9, sigma=0.75,
/// sigma_log_sd=0.4, nu=3.5, cap=2048. Errors: kInvalidArgument.
Result<std::vector<LoadRequest>> synthetic_requests(std::string_view spec, std::size_t count,
                                                    std::uint64_t seed);

/// Seconds since the start, ascending: a Poisson process of `rate` per second, `count` of them or
/// as many as fall before `duration_s`, whichever is given.
std::vector<double> poisson_arrivals(double rate, std::optional<std::size_t> count,
                                     std::optional<double> duration_s, Rng rng);

/// The arrival times that the requests carry themselves. Errors: kInvalidArgument when one has none
/// or they do not ascend.
Result<std::vector<double>> own_arrivals(const std::vector<LoadRequest>& requests);

/// CSV: the column "t_s" or "arrival_s" of a file with a header, else the first column. Errors:
/// kInvalidArgument with the line number when a time is not a number, negative or earlier than the
/// last.
Result<std::vector<double>> parse_arrivals(std::string_view csv);

}  // namespace tailrace::loadgen
