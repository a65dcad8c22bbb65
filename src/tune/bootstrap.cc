#include "tailrace/tune/bootstrap.h"

#include <fmt/format.h>

#include <cmath>

namespace tailrace::tune {
namespace {

template <class... Parts>
tl::unexpected<Error> no_guess(fmt::format_string<Parts...> format, Parts&&... parts) {
  return fail(ErrorCode::kInvalidArgument,
              "no first guess: " + fmt::format(format, std::forward<Parts>(parts)...));
}

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

Result<queueing::IterationModel> published_bootstrap(const queueing::Workload& workload,
                                                     double ttft_ms, double itl_ms) {
  const double i = workload.input_mean;
  const double o = workload.output_mean;
  const double alpha = kBaseFactor * itl_ms;
  const double beta_and_gamma = (ttft_ms - alpha) / i;
  const double tokens = i + (o + 1) / 2 - 1;
  if (!positive(tokens)) {
    return no_guess("{} prompt and {} answer tokens leave gamma nothing to be told by", i, o);
  }
  const double gamma = (itl_ms - alpha - beta_and_gamma) / tokens;
  const double beta = beta_and_gamma - gamma;
  for (const auto& [name, value] :
       {std::pair{"alpha", alpha}, std::pair{"beta", beta}, std::pair{"gamma", gamma}}) {
    if (!positive(value)) {
      return no_guess("TTFT {} ms and ITL {} ms at {} + {} tokens make {} {}", ttft_ms, itl_ms, i,
                      o, name, value);
    }
  }
  return queueing::IterationModel{.alpha_ms = alpha, .beta_ms = beta, .gamma_ms = gamma};
}

Result<LoadAwareGuess> load_aware_bootstrap(const queueing::Workload& workload, double ttft_ms,
                                            double itl_ms, double gamma_per_beta) {
  const double i = workload.input_mean;
  const double o = workload.output_mean;
  const double r = gamma_per_beta;
  // TTFT − ITL = beta (i − 1) − gamma (o + 1)/2: the iteration time cancels.
  const double tokens = (i - 1) - r * (o + 1) / 2;
  if (!positive(tokens)) {
    return no_guess("a prompt of {} tokens is too short beside an answer of {}", i, o);
  }
  if (!(ttft_ms > itl_ms)) {
    return no_guess("TTFT {} ms is not above ITL {} ms", ttft_ms, itl_ms);
  }
  LoadAwareGuess guess;
  const double beta = (ttft_ms - itl_ms) / tokens;
  const double gamma = r * beta;
  guess.iteration_ms = ttft_ms - (beta + gamma) * i;
  guess.rho = workload.rate_per_s * 1e-3 * (beta * (i + o) + gamma * (o + 1) * (i + o / 2));
  if (!(guess.rho < 1)) {
    return no_guess("beta {} ms would saturate a replica below {} requests/s", beta,
                    workload.rate_per_s);
  }
  const double alpha = guess.iteration_ms * (1 - guess.rho);
  for (const auto& [name, value] :
       {std::pair{"alpha", alpha}, std::pair{"beta", beta}, std::pair{"gamma", gamma}}) {
    if (!positive(value)) {
      return no_guess("TTFT {} ms and ITL {} ms at {} + {} tokens make {} {}", ttft_ms, itl_ms, i,
                      o, name, value);
    }
  }
  guess.values = {.alpha_ms = alpha, .beta_ms = beta, .gamma_ms = gamma};
  return guess;
}

}  // namespace tailrace::tune
