#include "simulate/servegen_workload.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "simulate/arrivals.h"
#include "simulate/field_check.h"
#include "simulate/token_draws.h"
#include "tailrace/dataset/servegen.h"

namespace tailrace::simulate {
namespace {

using dataset::CurvesOverTime;
using dataset::RateWindow;
using dataset::ServeGenClient;

/// y^(1/shape) over the mean of a Weibull law, by logarithms: both are beyond a double for small
/// shapes.
double weibull_gap(double y, double inverse_shape) {
  return std::exp(inverse_shape * std::log(y) - std::lgamma(1 + inverse_shape));
}

/// A gap of mean 1.
double unit_gap(const RateWindow& window, Rng& rng) {
  if (!window.is_weibull) return rng.gamma(window.shape) / window.shape;
  const double inverse = 1 / window.shape;
  return weibull_gap(rng.exponential(), inverse);
}

/// What is left of such a gap at a random moment: a uniform part of one drawn by its length.
double unit_gap_left(const RateWindow& window, Rng& rng) {
  const double part = rng.uniform();
  if (!window.is_weibull) return part * rng.gamma(window.shape + 1) / window.shape;
  const double inverse = 1 / window.shape;
  return part * weibull_gap(rng.gamma(1 + inverse), inverse);
}

/// One client's requests: a renewal process of mean gap 1 on a clock that runs at the rate of the
/// window, so that the mean number of requests is the integral of the rate whatever the gaps'
/// variation, and a long gap reaches over the end of its window.
class Client {
 public:
  Client(ServeGenClient tables, double rate_scale, Rng rng)
      : tables_(std::move(tables)),
        tenant_(fmt::format("client {}", tables_.id)),
        rate_scale_(rate_scale),
        rng_(std::move(rng)),
        at_s_(tables_.windows.front().begin_s) {
    advance(unit_gap_left(tables_.windows.front(), rng_));
  }

  /// Infinite after the last request.
  double next_s() const { return at_s_; }
  const std::string& tenant() const { return tenant_; }

  /// Draws the request's lengths and moves on to the next one. No prompt where none are recorded.
  std::pair<std::optional<double>, double> take() {
    std::optional<double> prompt;
    if (!tables_.prompts->empty()) prompt = draw(*tables_.prompts, prompt_record_);
    const double output = draw(*tables_.outputs, output_record_);
    advance(unit_gap(tables_.windows[window_], rng_));
    return {prompt, output};
  }

 private:
  void advance(double gap) {
    for (; window_ < tables_.windows.size(); ++window_) {
      const RateWindow& window = tables_.windows[window_];
      const double rate = window.rate * rate_scale_;
      at_s_ = std::max(at_s_, window.begin_s);
      const double share = rate * (window.end_s - at_s_);
      if (gap < share) {
        at_s_ += gap / rate;
        return;
      }
      gap -= share;
      at_s_ = window.end_s;
    }
    at_s_ = std::numeric_limits<double>::infinity();
  }

  /// From the record nearest in time. Time only goes on, and so does `record`.
  double draw(const CurvesOverTime& curves, std::size_t& record) {
    const auto away = [&](std::size_t i) { return std::fabs(curves[i].at_s - at_s_); };
    while (record + 1 < curves.size() && away(record + 1) <= away(record)) ++record;
    return curves[record].curve.at(rng_.uniform());
  }

  ServeGenClient tables_;
  std::string tenant_;
  double rate_scale_;
  Rng rng_;
  double at_s_;
  std::size_t window_ = 0;
  std::size_t prompt_record_ = 0, output_record_ = 0;
};

class ServeGenWorkload final : public Workload {
 public:
  ServeGenWorkload(const WorkloadSpec& spec, std::vector<ServeGenClient> tables, const Rng& rng)
      : spec_(*spec.servegen),
        context_(spec.context),
        prompts_(spec.prompts),
        prompt_draws_(rng.fork("prompts")) {
    for (ServeGenClient& client : tables) {
      Rng own = rng.fork(fmt::format("servegen client {}", client.id));
      clients_.emplace_back(std::move(client), spec_.rate_scale, std::move(own));
      queue(clients_.size() - 1);
    }
  }

  Result<bool> next(Request& out) override {
    if (line_.empty()) return false;
    const auto [at_s, which] = line_.top();
    line_.pop();
    Client& client = clients_[which];
    out = Request{};
    out.id = made_++;
    out.arrival = MonoTime{from_seconds(at_s - spec_.from_s)};
    out.tenant = client.tenant();
    const auto [prompt, output] = client.take();
    out.prompt = prompt ? whole(*prompt) : draw_prompt(prompts_, prompt_draws_);
    set_recorded_length(whole(output).count(), spec_.cap, context_, out);
    queue(which);
    return true;
  }

 private:
  static Tokens whole(double tokens) {
    return Tokens(static_cast<std::int64_t>(std::max(1.0, std::round(tokens))));
  }

  void queue(std::size_t which) {
    const double at_s = clients_[which].next_s();
    if (std::isfinite(at_s)) line_.emplace(at_s, which);
  }

  using Arrival = std::pair<double, std::size_t>;

  ServeGenSpec spec_;
  std::int64_t context_;
  PromptSpec prompts_;
  Rng prompt_draws_;
  std::vector<Client> clients_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> line_;
  std::uint64_t made_ = 0;
};

Result<void> check(const WorkloadSpec& spec) {
  constexpr std::int64_t kTokensMax = std::int64_t{1} << 40;
  const ServeGenSpec& s = *spec.servegen;
  const FieldCheck in("servegen");
  if (s.arrivals.empty()) return in.missing("arrivals", "which file holds the arrival windows");
  if (s.lengths.empty()) return in.missing("lengths", "which file holds the length windows");
  if (!in_range(s.from_s, 0, 1e9)) return in.bad("from_s", s.from_s, "seconds, 0 to 1e9");
  if (s.until_s && !(*s.until_s > s.from_s && *s.until_s <= 1e9)) {
    return in.bad("until_s", *s.until_s, "seconds, above from_s and at most 1e9");
  }
  if (!in_range(s.rate_scale, 1e-6, 1e6)) {
    return in.bad("rate_scale", s.rate_scale, "a factor, 1e-6 to 1e6");
  }
  if (s.cap < 0 || s.cap > kTokensMax) {
    return in.bad("cap", s.cap, "a number of tokens up to 2^40, or 0 for none");
  }
  if (spec.trace || spec.sessions || !spec.classes.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("servegen is given beside {}, and says the same; leave one out",
                            spec.trace      ? "trace"
                            : spec.sessions ? "sessions"
                                            : "classes"));
  }
  if (auto ok = check(spec.prompts, "prompts"); !ok) return ok;
  return check_end(spec.arrivals);
}

}  // namespace

Result<std::unique_ptr<Workload>> make_servegen_workload(const WorkloadSpec& spec, const Rng& rng) {
  if (auto ok = check(spec); !ok) return fail(ok.error());
  const ServeGenSpec& s = *spec.servegen;
  auto tables = dataset::read_servegen({s.arrivals, s.lengths, s.histograms}, s.from_s,
                                       s.until_s.value_or(std::numeric_limits<double>::infinity()));
  if (!tables) return fail(tables.error());
  return std::make_unique<ServeGenWorkload>(spec, std::move(*tables), rng);
}

}  // namespace tailrace::simulate
