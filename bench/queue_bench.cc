// How fast is the waiting queue with 100,000 jobs, and does a step of TIE's beta stall it?
//
// Push, re-key (a prediction arrives) and pop, each timed one by one, beside the plain ways to do
// the same in the same process: std::multimap and std::set of (key, arrival, id) with an index by
// id, keys given for free. Then every step of beta with all jobs waiting, a dispatcher choosing
// among 1,000 backends, and what the gittins policy asks of a law: the key of a waiting job, the
// making of a running job's AgeKey, and its key at an age. The order of pops is checked against a
// sort, and ranks against LengthLaw's exact path, before anything is printed.
//
//   queue_bench [--jobs N] [--json]
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"
#include "tailrace/dispatch/dispatcher.h"
#include "tailrace/schedule/waiting_queue.h"

namespace {

using namespace tailrace;
using schedule::Job;
using schedule::WaitingQueue;
using Stopwatch = std::chrono::steady_clock;

struct Timing {
  double median_ns = 0;
  double p99_ns = 0;
  double worst_ns = 0;
};

Timing summarize(std::vector<double> ns) {
  std::sort(ns.begin(), ns.end());
  return {ns[ns.size() / 2], ns[ns.size() * 99 / 100], ns.back()};
}

/// Times each call by itself; the two clock readings count against us.
class Series {
 public:
  template <class Call>
  void time(Call call) {
    const auto start = Stopwatch::now();
    call();
    ns_.push_back(std::chrono::duration<double, std::nano>(Stopwatch::now() - start).count());
  }
  Timing timing() const { return summarize(ns_); }

 private:
  std::vector<double> ns_;
};

/// Time on the processor: what the call itself costs, whoever else wants the machine.
double thread_cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct Operations {
  Timing push, rekey, pop;
};

std::vector<Job> make_jobs(std::size_t count, Rng& rng) {
  std::vector<Job> jobs(count);
  for (std::size_t i = 0; i < count; ++i) {
    Job& job = jobs[i];
    job.id = JobId{i + 1};
    job.arrival = MonoTime{std::chrono::milliseconds(10 * i)};
    job.model = "model";
    job.tenant = "tenant";
    job.cap = Tokens{2048};
    if (i % 2 == 0) job.law = length::LengthLaw::log_t(4.6 + 0.9 * rng.normal(), 0.75).value();
  }
  return jobs;
}

length::LengthLaw any_law(Rng& rng) {
  return length::LengthLaw::log_t(4.6 + 0.9 * rng.normal(), 0.3 + rng.uniform()).value();
}

std::vector<std::size_t> shuffled(std::size_t count, Rng& rng) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

[[noreturn]] void wrong(std::string_view what) {
  fmt::print(stderr, "queue_bench: {}\n", what);
  std::exit(1);
}

using Rank = std::tuple<double, MonoTime, JobId>;

void check_order(const WaitingQueue& queue, std::vector<Job> jobs,
                 const std::vector<JobId>& popped) {
  std::vector<Rank> expected;
  for (const Job& job : jobs) {
    expected.emplace_back(queue.policy().key_of(job), job.arrival, job.id);
  }
  std::sort(expected.begin(), expected.end());
  if (popped.size() != expected.size()) wrong("jobs got lost");
  for (std::size_t i = 0; i < popped.size(); ++i) {
    if (popped[i] != std::get<JobId>(expected[i])) wrong("jobs were popped out of order");
  }
}

Operations measure_queue(std::vector<Job> jobs, std::uint64_t seed) {
  Rng rng(seed);
  const MonoTime now = jobs.back().arrival;
  WaitingQueue queue(schedule::make_policy("tie").value(), std::chrono::hours(1000));
  Series push, rekey, pop;
  for (const Job& job : jobs) {
    Job copy = job;
    push.time([&] { (void)queue.push(std::move(copy)); });
  }
  for (const std::size_t i : shuffled(jobs.size(), rng)) {
    jobs[i].law = any_law(rng);
    rekey.time([&] { (void)queue.set_law(jobs[i].id, *jobs[i].law); });
  }
  // Pops near the full size only: an emptying queue would flatter the median.
  std::vector<JobId> popped;
  for (std::size_t i = 0; i < jobs.size() / 10; ++i) {
    pop.time([&] { popped.push_back(queue.pop(now)->id); });
  }
  while (auto job = queue.pop(now)) popped.push_back(job->id);
  check_order(queue, jobs, popped);
  return {push.timing(), rekey.timing(), pop.timing()};
}

/// What one would write without an indexed heap. It is given each key, and holds the job as the
/// queue does.
class MultimapQueue {
 public:
  void push(double key, Job job) {
    const JobId id = job.id;
    at_[id] = jobs_.emplace(std::tuple(key, job.arrival, id), std::move(job));
  }
  void rekey(double key, JobId id) {
    const auto place = at_.find(id);
    auto node = jobs_.extract(place->second);
    std::get<double>(node.key()) = key;
    place->second = jobs_.insert(std::move(node));
  }
  JobId pop() {
    const auto first = jobs_.begin();
    const Job job = std::move(first->second);
    jobs_.erase(first);
    at_.erase(job.id);
    return job.id;
  }

 private:
  std::multimap<Rank, Job> jobs_;
  std::unordered_map<JobId, std::multimap<Rank, Job>::iterator> at_;
};

class SetQueue {
 public:
  void push(double key, Job job) {
    const Rank rank{key, job.arrival, job.id};
    order_.insert(rank);
    jobs_.emplace(job.id, std::pair(rank, std::move(job)));
  }
  void rekey(double key, JobId id) {
    Rank& rank = jobs_.find(id)->second.first;
    order_.erase(rank);
    std::get<double>(rank) = key;
    order_.insert(rank);
  }
  JobId pop() {
    const JobId id = std::get<JobId>(*order_.begin());
    order_.erase(order_.begin());
    const auto found = jobs_.find(id);
    const Job job = std::move(found->second.second);
    jobs_.erase(found);
    return job.id;
  }

 private:
  std::set<Rank> order_;
  std::unordered_map<JobId, std::pair<Rank, Job>> jobs_;
};

template <class Queue>
Operations measure_plain(const std::vector<Job>& jobs, std::uint64_t seed) {
  Rng rng(seed);
  const auto tie = schedule::make_policy("tie").value();
  Queue queue;
  Series push, rekey, pop;
  for (const Job& job : jobs) {
    Job copy = job;
    push.time([&] { queue.push(tie->key_of(copy), std::move(copy)); });
  }
  for (const std::size_t i : shuffled(jobs.size(), rng)) {
    Job changed = jobs[i];
    changed.law = any_law(rng);
    rekey.time([&] { queue.rekey(tie->key_of(changed), changed.id); });
  }
  for (std::size_t i = 0; i < jobs.size() / 10; ++i) {
    pop.time([&] { (void)queue.pop(); });
  }
  return {push.timing(), rekey.timing(), pop.timing()};
}

struct Steps {
  Timing wall, cpu;
};

/// Every bucket of beta up and down, again and again, with all jobs waiting. The first look at the
/// queue after a step belongs to it.
Steps measure_beta_steps(const std::vector<Job>& jobs) {
  const MonoTime now = jobs.back().arrival;
  WaitingQueue queue(schedule::make_policy("tie").value(), std::nullopt);
  for (const Job& job : jobs) (void)queue.push(job);
  constexpr std::size_t kLoads[] = {15, 20, 25, 30, 35, 40, 45, 50, 45, 40, 35, 30, 25, 20, 15, 10};
  Series steps;
  std::vector<double> cpu_ns;
  for (int round = 0; round < 4; ++round) {
    for (const std::size_t load : kLoads) {
      const std::string before = queue.policy().explain(jobs[0]);
      const Job* first = nullptr;
      const double cpu_before = thread_cpu_ns();
      steps.time([&] {
        queue.set_load(load * 1000, 10'000);
        first = queue.peek(now);
      });
      cpu_ns.push_back(thread_cpu_ns() - cpu_before);
      if (queue.policy().explain(jobs[0]) == before) wrong("a load did not step beta");
      const double key = queue.policy().key_of(*first);
      for (const Job& job : jobs) {
        if (queue.policy().key_of(job) < key) wrong("beta stepped, but the order did not follow");
      }
    }
  }
  return {steps.timing(), summarize(cpu_ns)};
}

/// One dispatch: the choice among `backends`, a submission and a completion kept out of the time.
Timing measure_dispatch(std::vector<Job> jobs, int backends) {
  dispatch::DispatchConfig config;
  config.queued_jobs_max = jobs.size() + 1;
  auto dispatcher = std::move(dispatch::Dispatcher::make(config).value());
  for (int i = 0; i < backends; ++i) {
    (void)dispatcher.put_backend({fmt::format("engine-{:04}", i), {"model"}, 32}, MonoTime{});
  }
  const MonoTime now = jobs.back().arrival;
  for (Job& job : jobs) {
    job.arrival = now;
    if (dispatcher.submit(job, 1000, now).refusal) wrong("a job was refused");
  }
  Series next;
  const std::size_t count = std::min<std::size_t>(jobs.size(), 32 * std::size_t(backends)) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    bool sent = false;
    next.time([&] { sent = dispatcher.next(now).has_value(); });
    if (!sent) wrong("a job with a free slot was not sent");
  }
  return next.timing();
}

struct Ranks {
  Timing waiting, make_age_key, age_key;
};

/// Calls are timed by tens where one is as short as a reading of the clock.
Ranks measure_gittins(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  const auto gittins = schedule::make_policy("gittins").value();
  std::vector<Job> jobs = make_jobs(count, rng);
  for (Job& job : jobs) job.law = any_law(rng);
  constexpr std::size_t kTens = 10;
  std::vector<double> waiting_ns, age_ns;
  Series make;
  double sum = 0;
  const auto timed_tens = [&sum](std::vector<double>& ns, auto call) {
    const auto start = Stopwatch::now();
    for (std::size_t i = 0; i < kTens; ++i) sum += call(i);
    const auto spent = Stopwatch::now() - start;
    ns.push_back(std::chrono::duration<double, std::nano>(spent).count() / kTens);
  };
  for (std::size_t i = 0; i + kTens <= jobs.size(); i += kTens) {
    timed_tens(waiting_ns, [&](std::size_t k) { return gittins->key_of(jobs[i + k]); });
    const Job& job = jobs[i];
    std::unique_ptr<schedule::AgeKey> key;
    make.time([&] { key = gittins->age_key(job); });
    // Ages as a batch has them: of any size.
    std::int64_t ages[kTens];
    for (auto& age : ages) age = static_cast<std::int64_t>(rng.below(2000));
    timed_tens(age_ns, [&](std::size_t k) { return key->at(Tokens{ages[k]}); });
    if (i % 5000 != 0) continue;
    const auto rank = [&](Tokens age) {
      return std::log(job.law->gittins_rank(age, job.cap, Tokens{16}));
    };
    if (std::abs(gittins->key_of(job) - rank(Tokens{0})) > 0.025) wrong("a waiting rank is off");
    if (std::abs(key->at(Tokens{ages[0]}) - rank(Tokens{ages[0]})) > 0.002) wrong("a rank is off");
  }
  if (!std::isfinite(sum)) wrong("a key is no number");
  return {summarize(std::move(waiting_ns)), make.timing(), summarize(std::move(age_ns))};
}

std::string json(const Timing& t) {
  return fmt::format(R"({{"median_ns":{:.0f},"p99_ns":{:.0f},"worst_ns":{:.0f}}})", t.median_ns,
                     t.p99_ns, t.worst_ns);
}
std::string json(const Operations& o) {
  return fmt::format(R"({{"push":{},"rekey":{},"pop":{}}})", json(o.push), json(o.rekey),
                     json(o.pop));
}

std::string json(const Ranks& r) {
  return fmt::format(R"({{"waiting_key":{},"make_age_key":{},"age_key":{}}})", json(r.waiting),
                     json(r.make_age_key), json(r.age_key));
}

void print_row(std::string_view name, const Timing& t, std::string_view note = {}) {
  fmt::print("{:<34}{:>12.0f}{:>12.0f}{:>14.0f}  {}\n", name, t.median_ns, t.p99_ns, t.worst_ns,
             note);
}

void print_comparison(const Operations& ours, const Operations& other, std::string_view name) {
  const auto row = [&](std::string_view operation, const Timing& mine, const Timing& theirs) {
    print_row(fmt::format("{} {}", name, operation), theirs,
              fmt::format("{:.2f} × the queue's median", theirs.median_ns / mine.median_ns));
  };
  row("push", ours.push, other.push);
  row("re-key", ours.rekey, other.rekey);
  row("pop", ours.pop, other.pop);
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 100'000;
  bool as_json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      as_json = true;
    } else if (argument == "--jobs" && i + 1 < argc) {
      const auto parsed = core::parse_int(argv[++i]);
      if (!parsed || *parsed < 1000) wrong("--jobs: give a whole number, at least 1000");
      count = static_cast<std::size_t>(*parsed);
    } else {
      fmt::print(stderr, "usage: queue_bench [--jobs N] [--json]\n");
      return 2;
    }
  }

  Rng rng(1);
  const std::vector<Job> jobs = make_jobs(count, rng);
  (void)measure_queue(make_jobs(1000, rng), 3);  // builds the table of laws, warms the caches
  const Operations queue = measure_queue(jobs, 2);
  const Operations multimap = measure_plain<MultimapQueue>(jobs, 2);
  const Operations set = measure_plain<SetQueue>(jobs, 2);
  const Steps beta = measure_beta_steps(jobs);
  const Timing dispatch = measure_dispatch(jobs, 1000);
  const Ranks gittins = measure_gittins(count, 5);

  if (as_json) {
    fmt::print(
        R"({{"jobs":{},"queue":{},"multimap":{},"set":{},"beta_step":{},"beta_step_cpu":{},"dispatch_1000_backends":{},"gittins":{}}})"
        "\n",
        count, json(queue), json(multimap), json(set), json(beta.wall), json(beta.cpu),
        json(dispatch), json(gittins));
    return 0;
  }
  fmt::print("{} waiting jobs, policy tie; nanoseconds a call\n\n", count);
  fmt::print("{:<34}{:>12}{:>12}{:>14}\n", "", "median", "p99", "worst");
  print_row("queue push", queue.push);
  print_row("queue re-key", queue.rekey);
  print_row("queue pop", queue.pop);
  print_comparison(queue, multimap, "std::multimap");
  print_comparison(queue, set, "std::set");
  const auto worst = [](const Timing& t) {
    return fmt::format("worst {:.2f} ms", t.worst_ns * 1e-6);
  };
  print_row("step of beta, all jobs", beta.wall, worst(beta.wall));
  print_row("  of it on the processor", beta.cpu, worst(beta.cpu));
  print_row("dispatch, 1000 backends", dispatch);
  print_row("gittins key, waiting job", gittins.waiting);
  print_row("gittins AgeKey made", gittins.make_age_key);
  print_row("gittins key at an age", gittins.age_key);
  return 0;
}
