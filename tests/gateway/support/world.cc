#include "gateway/support/world.h"

#include <algorithm>
#include <utility>

#include "tailrace/core/check.h"
#include "tailrace/core/log.h"

namespace tailrace::gateway::testing {
namespace {

class OraclePredictor final : public predict::Predictor {
 public:
  explicit OraclePredictor(Oracle& oracle) : oracle_(oracle) {}
  std::string_view name() const override { return "oracle"; }
  std::vector<predict::Prediction> predict(
      std::span<const predict::RequestFeatures> batch) override {
    std::vector<predict::Prediction> result;
    for (const auto& features : batch) {
      if (!oracle_.says) continue;
      if (auto prediction = oracle_.says(features)) result.push_back(*prediction);
    }
    return result;
  }
  std::vector<predict::Influence> explain(const predict::RequestFeatures&,
                                          std::size_t limit) const override {
    auto influences = oracle_.because;
    influences.resize(std::min(influences.size(), limit));
    return influences;
  }
  void observe(const predict::RequestFeatures& features,
               const predict::Observation& observation) override {
    oracle_.heard.push_back({features, observation});
  }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view) override { return {}; }

 private:
  Oracle& oracle_;
};

}  // namespace

void EngineRequest::begin_events() {
  net::ResponseHead response;
  response.headers.add("content-type", "text/event-stream; charset=utf-8");
  exchange->begin(std::move(response));
}

void EngineRequest::event(std::string_view content) {
  exchange->write("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" +
                  std::string(content) + "\"},\"finish_reason\":null}]}\n\n");
}

void EngineRequest::usage(int completion_tokens) {
  exchange->write("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":" +
                  std::to_string(completion_tokens) + ",\"total_tokens\":9}}\n\n");
}

void EngineRequest::done() {
  exchange->write("data: [DONE]\n\n");
  exchange->finish();
}

void EngineRequest::whole(int completion_tokens, std::string_view finish_reason) {
  net::ResponseHead response;
  response.headers.add("content-type", "application/json");
  exchange->respond(std::move(response),
                    "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
                    "\"a\"},\"finish_reason\":\"" +
                        std::string(finish_reason) +
                        "\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":" +
                        std::to_string(completion_tokens) + ",\"total_tokens\":9}}");
}

void EngineRequest::status(int code, net::Headers headers, std::string body_text) {
  net::ResponseHead response;
  response.status = code;
  response.headers = std::move(headers);
  response.headers.add("content-type", "application/json");
  exchange->respond(std::move(response), std::move(body_text));
}

Engine::Engine(net::SimLoop& loop, net::SimNetwork& network, std::uint16_t port)
    : loop_(loop), network_(network), endpoint_{"10.0.0.1", port, false} {}

void Engine::start() {
  network_.set_reach(endpoint_, net::SimNetwork::Reach::kNormal);
  auto server = net::HttpServer::listen(
      loop_, network_, endpoint_, {},
      [this](std::shared_ptr<net::Exchange> exchange) { handle(std::move(exchange)); });
  TAILRACE_CHECK(server.has_value());
  server_ = std::move(*server);
}

void Engine::kill() {
  server_.reset();
  network_.set_reach(endpoint_, net::SimNetwork::Reach::kRefused);
}

int Engine::open_requests() const {
  return static_cast<int>(std::count_if(requests.begin(), requests.end(), [](const auto& request) {
    return !request->gone && request->exchange && !request->exchange->client_gone() &&
           !request->exchange->begun();
  }));
}

void Engine::handle(std::shared_ptr<net::Exchange> exchange) {
  const auto path = exchange->head().path();
  if (path == "/health" || path == "/v1/models") {
    ++probes;
    net::ResponseHead head;
    head.status = path == "/health" ? health_status : 200;
    exchange->respond(std::move(head), path == "/health" ? "" : models);
    return;
  }
  auto request = std::make_shared<EngineRequest>();
  request->head = exchange->head();
  request->exchange = exchange;
  requests.push_back(request);
  exchange->on_client_gone([this, weak = std::weak_ptr<EngineRequest>(request)] {
    if (const auto left = weak.lock()) {
      left->gone = true;
      left->gone_at = loop_.now();
    }
  });
  exchange->read_body(
      64 << 20, [this, weak = std::weak_ptr<EngineRequest>(request)](Result<std::string> body) {
        const auto arrived = weak.lock();
        if (!arrived || !body) return;
        arrived->body = std::move(*body);
        if (script_) script_(*arrived);
      });
}

World::World(std::uint64_t seed) : network(loop, seed) {
  config.listen = {"10.0.0.2", 8080, false};
  config.admin.listen = {"10.0.0.2", 9090, false};
  config.logging.requests = false;
  log::configure(log::Level::kError, log::Format::kLogfmt);
  client_ = net::HttpClient::make(loop, network);
}

World::~World() {
  stop();
  for (auto& [name, engine] : engines) engine->kill();
}

Engine& World::add_engine(const std::string& name, int slots, std::vector<std::string> models) {
  const auto port = static_cast<std::uint16_t>(8000 + engines.size());
  auto& engine = engines[name];
  engine = std::make_unique<Engine>(loop, network, port);
  engine->start();
  BackendConfig backend;
  backend.name = name;
  backend.url = net::parse_url(engine->url()).value();
  backend.models = std::move(models);
  backend.slots = slots;
  config.backends.push_back(std::move(backend));
  return *engine;
}

void World::start() {
  GatewayParts parts;
  parts.prediction = make_inline_prediction_runner(loop, std::make_unique<OraclePredictor>(oracle));
  parts.read_large_bodies_inline = true;
  parts.environment = no_environment();
  auto started = Gateway::start(config, loop, network, std::move(parts));
  TAILRACE_CHECK(started.has_value());
  gateway = std::move(*started);
  run(milliseconds(10));
}

void World::stop() {
  gateway.reset();
}

std::shared_ptr<Reply> World::send(std::string method, std::string target, std::string body,
                                   net::Headers headers, bool admin) {
  auto reply = std::make_shared<Reply>();
  net::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.headers = std::move(headers);
  if (!head.headers.find("content-type")) head.headers.add("content-type", "application/json");
  net::CallHandlers handlers;
  const std::weak_ptr<Reply> weak = reply;
  handlers.on_head = [weak](net::ResponseHead h) {
    if (const auto r = weak.lock()) {
      r->head = std::move(h);
      r->has_head = true;
    }
  };
  handlers.on_body = [weak](std::string_view bytes) {
    if (const auto r = weak.lock()) r->body.append(bytes);
  };
  handlers.on_end = [weak] {
    if (const auto r = weak.lock()) r->ended = true;
  };
  handlers.on_error = [weak](net::CallError error) {
    if (const auto r = weak.lock()) r->error = std::move(error);
  };
  reply->call =
      client_->start(admin ? config.admin.listen : config.listen, std::move(head),
                     body.empty() ? nullptr : std::make_shared<const std::string>(std::move(body)),
                     {}, std::move(handlers));
  return reply;
}

std::shared_ptr<Reply> World::chat(std::string extra, net::Headers headers) {
  return send(
      "POST", "/v1/chat/completions",
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" + extra + "}",
      std::move(headers));
}

std::shared_ptr<Reply> World::stream(std::string extra, net::Headers headers) {
  return chat(",\"stream\":true" + extra, std::move(headers));
}

std::shared_ptr<Reply> World::admin(std::string method, std::string target, std::string body,
                                    net::Headers headers) {
  return send(std::move(method), std::move(target), std::move(body), std::move(headers), true);
}

dispatch::PoolView World::pool(std::string_view model) const {
  for (const auto& view : gateway->dispatcher().pools(loop.now())) {
    if (view.model == model) return view;
  }
  return {};
}

bool World::idle() const {
  return gateway->active_requests() == 0 && gateway->dispatcher().idle();
}

}  // namespace tailrace::gateway::testing
