#include "observe/support/sim_server.h"

#include <algorithm>
#include <optional>

#include "support/percent.h"
#include "tailrace/core/text.h"

namespace tailrace::observe::test {
namespace {

std::string decoded(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return percent_decoded(spaced);
}

std::map<std::string, std::string> read_form(std::string_view text) {
  std::map<std::string, std::string> form;
  for (const std::string_view field : core::split(text, '&')) {
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos) continue;
    form[decoded(field.substr(0, equals))] = decoded(field.substr(equals + 1));
  }
  return form;
}

}  // namespace

void SimServers::serve(const net::Endpoint& at, Answer answer) {
  servers_.erase(at);
  auto server = net::HttpServer::listen(
      loop, network, at, {}, [this, answer](std::shared_ptr<net::Exchange> exchange) {
        exchange->read_body(1 << 20, [this, answer, exchange](Result<std::string> body) {
          if (!body) return;
          const std::string& target = exchange->head().target;
          const std::size_t query = target.find('?');
          Request request{exchange->head(), {}, now_s()};
          request.form = read_form(query == std::string::npos ? *body : target.substr(query + 1));
          requests.push_back(request);
          held.push_back(exchange);
          answer(request, *exchange);
        });
      });
  ASSERT_TRUE(server) << server.error().message;
  servers_[at] = std::move(*server);
}

void SimServers::TearDown() {
  held.clear();
  servers_.clear();
  loop.run_for(std::chrono::seconds(10));
  EXPECT_EQ(network.open_streams(), 0U) << "a connection leaks";
}

Fetched SimServers::fetch_whole(Source& source, double now_s, const Wanted& wanted) {
  std::optional<Fetched> result;
  source.fetch(now_s, wanted, [&](Fetched fetched) {
    EXPECT_FALSE(result) << "answered twice";
    result = std::move(fetched);
  });
  EXPECT_FALSE(result) << "answered inside the call";
  for (int i = 0; i < 2000 && !result; ++i) loop.run_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(result) << "never answered";
  return result.value_or(Fetched{});
}

std::string success(const std::string& type, const std::string& result) {
  return R"({"status":"success","data":{"resultType":")" + type + R"(","result":)" + result + "}}";
}

void respond(net::Exchange& exchange, int status, const std::string& body,
             const std::string& content_type) {
  exchange.respond({status, "", {{"Content-Type", content_type}}}, body);
}

}  // namespace tailrace::observe::test
