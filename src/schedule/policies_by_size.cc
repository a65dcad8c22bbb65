// Policies that order by one number of the waiting job: fcfs, mean, median, ratio.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/policies.h"

namespace tailrace::schedule {
namespace {

class Fcfs final : public Policy {
 public:
  std::string_view name() const override { return "fcfs"; }
  Appraisal appraise(const Job&) const override { return {}; }
  double key(const Appraisal&, MonoTime arrival) const override { return to_seconds(arrival); }
  std::string explain(const Job& job) const override {
    return fmt::format("fcfs: arrival at {:.3f} s", to_seconds(job.arrival));
  }
};

/// The policies whose key is one length: smaller first, no ageing.
class BySize : public Policy {
 public:
  double key(const Appraisal& appraisal, MonoTime) const final { return appraisal.size; }

  Appraisal appraise(const Job& job) const final {
    const double unknown = size_at_cap(cap_of(job));
    if (!job.law) return {unknown, 0};
    const double size = size_of(*job.law, job);
    return {usable(size) ? size : unknown, 0};
  }

  std::string explain(const Job& job) const final {
    return fmt::format("{}: {} = {:.6g} ({})", name(), meaning(), appraise(job).size,
                       describe_law(job));
  }

 private:
  virtual double size_of(const length::LengthLaw& law, const Job& job) const = 0;
  virtual double size_at_cap(double cap) const { return cap; }
  virtual std::string_view meaning() const = 0;
};

class Mean final : public BySize {
 public:
  std::string_view name() const override { return "mean"; }

 private:
  double size_of(const length::LengthLaw& law, const Job& job) const override {
    return law.capped_moments_fast(cap_of(job)).mean;
  }
  std::string_view meaning() const override { return "E[min(L, cap)]"; }
};

class Median final : public BySize {
 public:
  std::string_view name() const override { return "median"; }

 private:
  double size_of(const length::LengthLaw& law, const Job& job) const override {
    return std::min(law.median(), cap_of(job));
  }
  std::string_view meaning() const override { return "min(median, cap)"; }
};

class Ratio final : public BySize {
 public:
  std::string_view name() const override { return "ratio"; }

 private:
  double size_of(const length::LengthLaw& law, const Job& job) const override {
    return law.ratio_index_fast(cap_tokens(job));
  }
  // A length that is certainly the cap has E[L]/E[1/L] = cap².
  double size_at_cap(double cap) const override { return cap * cap; }
  std::string_view meaning() const override { return "E[L]/E[1/L]"; }
};

}  // namespace

std::unique_ptr<Policy> make_fcfs() {
  return std::make_unique<Fcfs>();
}
std::unique_ptr<Policy> make_mean() {
  return std::make_unique<Mean>();
}
std::unique_ptr<Policy> make_median() {
  return std::make_unique<Median>();
}
std::unique_ptr<Policy> make_ratio() {
  return std::make_unique<Ratio>();
}

}  // namespace tailrace::schedule
