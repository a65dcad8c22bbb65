#include "autoscaler/support/process_world.h"

#include <algorithm>
#include <boost/json.hpp>
#include <csignal>

#include "tailrace/core/check.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler::testing {

Result<ProcessId> Machine::start(const ProcessSpec& spec) {
  if (refuses) return fail(*refuses);
  auto made = std::make_unique<Program>();
  Program& program = *made;
  program.id = {static_cast<int>(100 + programs.size()), 7 * (1 + programs.size()), "boot"};
  program.spec = spec;
  program.port = static_cast<std::uint16_t>(core::parse_int(spec.argv.back()).value_or(0));
  programs.push_back(std::move(made));
  loop_.post_at(loop_.now() + start_up, [this, &program] {
    if (!program.alive) return;
    auto server = net::HttpServer::listen(
        loop_, network_, {"127.0.0.1", program.port, false}, {},
        [](const std::shared_ptr<net::Exchange>& exchange) { exchange->respond({}, "ok"); });
    TAILRACE_CHECK(server.has_value());
    program.server = std::move(*server);
  });
  if (lives_for > Duration{0}) {
    loop_.post_at(loop_.now() + lives_for,
                  [this, &program] { end(program.id.pid, "exit status 3"); });
  }
  return program.id;
}

ProcessLook Machine::look(const ProcessId& id) {
  const auto* found = program(id.pid);
  if (found == nullptr || found->id != id) return {false, "ended"};
  return {found->alive, found->end};
}

void Machine::signal(const ProcessId& id, int signal) {
  auto* found = program(id.pid);
  if (found == nullptr || found->id != id || !found->alive) return;
  found->signals.push_back(signal);
  if (signal == SIGKILL || heeds_terminate) end(id.pid, "signal " + std::to_string(signal));
}

std::optional<ProcessId> Machine::find(const std::string& name, const std::string& value) {
  for (const auto& candidate : programs) {
    for (const auto& [key, text] : candidate->spec.environment) {
      if (candidate->alive && key == name && text == value) return candidate->id;
    }
  }
  return std::nullopt;
}

bool Machine::port_is_free(const std::string&, std::uint16_t port) {
  return std::none_of(programs.begin(), programs.end(), [port](const auto& candidate) {
    return candidate->alive && candidate->port == port;
  });
}

void Machine::end(int pid, std::string how) {
  auto* found = program(pid);
  if (found == nullptr || !found->alive) return;
  found->alive = false;
  found->end = std::move(how);
  found->server.reset();
}

Machine::Program* Machine::program(int pid) {
  for (const auto& candidate : programs) {
    if (candidate->id.pid == pid) return candidate.get();
  }
  return nullptr;
}

std::size_t Machine::alive() const {
  return static_cast<std::size_t>(std::count_if(
      programs.begin(), programs.end(), [](const auto& candidate) { return candidate->alive; }));
}

void FakeGateway::start() {
  auto server = net::HttpServer::listen(
      loop_, network_, url().endpoint, {},
      [this](const std::shared_ptr<net::Exchange>& exchange) { handle(exchange); });
  TAILRACE_CHECK(server.has_value());
  server_ = std::move(*server);
}

void FakeGateway::stop() {
  server_.reset();
  backends.clear();
}

void FakeGateway::handle(const std::shared_ptr<net::Exchange>& exchange) {
  namespace json = boost::json;
  constexpr std::string_view kPath = "/tailrace/v1/backends";
  const std::string method = exchange->head().method;
  const std::string path(exchange->head().path());
  tokens.emplace_back(exchange->head().headers.find("authorization").value_or(""));
  if (method == "GET") {
    json::array list;
    for (const auto& [name, backend] : backends) {
      json::object entry{
          {"name", name}, {"running", backend.running}, {"draining", backend.draining}};
      if (!backend.draining) entry["url"] = backend.url;
      list.push_back(std::move(entry));
    }
    return exchange->respond({}, json::serialize(json::object{{"backends", std::move(list)}}));
  }
  const std::string name = path.substr(kPath.size() + 1);
  calls.push_back(method + " " + name);
  if (method == "DELETE") {
    const auto it = backends.find(name);
    net::ResponseHead head;
    if (it == backends.end()) {
      head.status = 404;
    } else if (it->second.running > 0) {
      it->second.draining = true;
    } else {
      backends.erase(it);
    }
    return exchange->respond(std::move(head), "{}");
  }
  exchange->read_body(1 << 20, [this, exchange, name](Result<std::string> body) {
    TAILRACE_CHECK(body.has_value());
    const auto document = json::parse(*body);
    auto& backend = backends[name];
    backend.url = document.at("url").as_string().c_str();
    backend.body = *body;
    backend.draining = false;
    exchange->respond({}, "{}");
  });
}

ProcessWorld::ProcessWorld() {
  log::configure(log::Level::kError, log::Format::kLogfmt);
  ProcessVariant small;
  small.key = {"local", "m"};
  small.name = "small";
  small.command = {"engine", "--model", "{model}", "--port", "{port}"};
  small.slots = 4;
  config.variants = {small};
  config.folder = folder.path().string();
  config.gateway = gateway.url();
  config.gateway_token = "sesame";
  config.port_first = 18000;
  config.port_last = 18099;
  gateway.start();
}

Result<std::unique_ptr<ProcessActuator>> ProcessWorld::make() {
  return ProcessActuator::make(loop, network, calendar, machine, config);
}

void ProcessWorld::start() {
  auto made = make();
  TAILRACE_CHECK(made.has_value());
  actuator = std::move(*made);
}

void ProcessWorld::start_with(std::int64_t replicas) {
  start();
  decide("small", replicas);
  run_for(std::chrono::seconds(6));
}

Order ProcessWorld::order_for(const std::string& variant) {
  Order order;
  order.id = "1-" + variant;
  order.decision.key = {"local", "m"};
  order.decision.variant = variant;
  order.decision.informed = false;
  return order;
}

Outcome ProcessWorld::decide(const std::string& variant, std::int64_t desired, bool informed) {
  Order order = order_for(variant);
  order.decision.desired = desired;
  order.decision.informed = informed;
  return carry_out(order);
}

Outcome ProcessWorld::carry_out(const Order& order) {
  std::optional<Outcome> outcome;
  actuator->apply({order}, [&](std::vector<Outcome> outcomes) { outcome = outcomes.at(0); });
  loop.run_for(Duration{0});
  TAILRACE_CHECK(outcome.has_value());
  return *outcome;
}

int ProcessWorld::count(ReplicaState state) const {
  return static_cast<int>(names(state).size());
}

std::vector<std::string> ProcessWorld::names(ReplicaState state) const {
  std::vector<std::string> list;
  for (const auto& replica : actuator->replicas()) {
    if (replica.state == state) list.push_back(replica.name);
  }
  return list;
}

}  // namespace tailrace::autoscaler::testing
