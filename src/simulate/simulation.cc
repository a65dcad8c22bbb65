#include "tailrace/simulate/simulation.h"

#include <unordered_map>

#include "tailrace/engine/batch_engine.h"

namespace tailrace::simulate {
namespace {

struct Server final : engine::LifeSink {
  std::unique_ptr<engine::BatchEngine> core;
  engine::PolicyScheduler* scheduler = nullptr;
  std::optional<MonoTime> next;  // when its next iteration may begin
  std::unordered_map<std::uint64_t, RequestRecord> live;
  const RecordSink* sink = nullptr;
  RunTotals* totals = nullptr;

  void on_admitted(engine::SequenceId id, MonoTime at, Tokens cached) override {
    RequestRecord& r = live.at(id.count());
    if (r.preemptions > 0) return;
    r.admitted = at;
    r.cached = cached;
  }
  void on_first_token(engine::SequenceId id, MonoTime at) override {
    live.at(id.count()).first_token = at;
  }
  void on_finished(engine::SequenceId id, MonoTime at) override {
    auto node = live.extract(id.count());
    node.mapped().finished = at;
    node.mapped().end = End::kCompleted;
    ++totals->completed;
    totals->output_tokens += node.mapped().output.count();
    totals->end = std::max(totals->end, at);
    (*sink)(node.mapped());
  }
  void on_preempted(engine::SequenceId id, MonoTime, Tokens) override {
    ++live.at(id.count()).preemptions;
    ++totals->preemptions;
  }
};

constexpr MonoTime kNever{Duration::max()};

}  // namespace

Result<RunTotals> run(const RunSpec& spec, const RecordSink& sink) {
  const Rng rng(spec.seed);
  auto workload = make_workload(spec.workload, rng);
  if (!workload) return fail(workload.error());
  auto predictor = make_predictor(spec.predictor, spec.workload.lengths, rng);
  if (!predictor) return fail(predictor.error());
  RunTotals totals;
  std::vector<std::unique_ptr<Server>> servers;
  for (int i = 0; i < spec.fleet.engines; ++i) {
    auto server = std::make_unique<Server>();
    server->sink = &sink;
    server->totals = &totals;
    std::unique_ptr<engine::BatchScheduler> line;
    if (spec.fleet.line == FleetSpec::Line::kPolicy) {
      auto options = spec.fleet.scheduler;
      options.slots = static_cast<std::size_t>(spec.fleet.engine.max_num_seqs);
      auto made = engine::PolicyScheduler::make(options);
      if (!made) return fail(made.error());
      server->scheduler = made->get();
      line = std::move(*made);
    } else if (spec.fleet.line == FleetSpec::Line::kPriority) {
      line = engine::make_priority_scheduler();
    }
    server->core = std::make_unique<engine::BatchEngine>(spec.fleet.engine, std::move(line));
    servers.push_back(std::move(server));
  }
  Request request;
  while (true) {
    auto more = (*workload)->next(request);
    if (!more) return fail(more.error());
    if (!*more) break;
    Server& server = *servers[totals.offered % servers.size()];
    ++totals.offered;
    if (server.next) {
      server.next = server.core->advance(*server.next, request.arrival, false, server);
    }
    RequestRecord record;
    record.id = request.id;
    record.arrival = request.arrival;
    record.dispatched = request.arrival;
    record.prompt = request.prompt;
    record.output = request.output;
    record.cap = request.cap;
    if (server.scheduler != nullptr) {
      schedule::Job job;
      job.id = JobId(request.id);
      job.arrival = request.arrival;
      job.prompt_tokens = request.prompt;
      job.cap = request.cap;
      job.law = (*predictor)->predict(request);
      server.scheduler->describe(std::move(job));
    }
    server.live.emplace(request.id, record);
    engine::SequenceSpec sequence{engine::SequenceId(request.id), request.prompt, request.output};
    sequence.blocking = spec.predictor.blocking;
    if (auto added = server.core->add(sequence, request.arrival); !added) {
      return fail(added.error());
    }
    if (!server.next) server.next = request.arrival;
  }
  for (auto& server : servers) {
    if (server->next) server->core->advance(*server->next, kNever, false, *server);
    const engine::EngineState state = server->core->state();
    totals.iterations += state.iterations;
    totals.computed_tokens += state.computed.count();
  }
  return totals;
}

}  // namespace tailrace::simulate
