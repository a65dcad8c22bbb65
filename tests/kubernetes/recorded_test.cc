// What a real kube-apiserver answered (make test-kubernetes, recorded with `run BUILD --record`):
// the client is driven through it again, and FakeApi is held to it.
#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "kubernetes/support/cluster.h"
#include "kubernetes/support/scenario.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes::testing {
namespace {

namespace json = boost::json;

constexpr double kRecordedAt_s = 1'800'000'000;

struct Recorded {
  std::string method, target, content_type, body, answer;
  int status = 0;
  bool used = false;

  bool watch() const { return target.find("watch=1") != std::string::npos; }
};

std::vector<Recorded> recorded() {
  const auto text = core::read_file(
      std::string(TAILRACE_SOURCE_DIR) + "/tests/kubernetes/data/exchanges.json", 1 << 20);
  std::vector<Recorded> all;
  if (!text) {
    ADD_FAILURE() << text.error().message;
    return all;
  }
  const json::value document = json::parse(*text);
  for (const json::value& item : document.as_array()) {
    const auto field = [&](std::string_view key) {
      return std::string(item.at(key).as_string().c_str());
    };
    all.push_back({field("method"), field("target"), field("content_type"), field("body"),
                   field("answer"), static_cast<int>(item.at("status").as_int64())});
  }
  return all;
}

ApiConfig small_pages() {
  ApiConfig config;
  config.page_objects = 2;  // as when it was recorded
  return config;
}

/// Answers each request with what the real server answered to the same one.
class Replay {
 public:
  Replay(net::SimLoop& loop, net::SimNetwork& network) : exchanges_(recorded()) {
    auto made = net::HttpServer::listen(loop, network, FakeApi::endpoint(), {},
                                        [this](const std::shared_ptr<net::Exchange>& exchange) {
                                          exchange->read_body(
                                              1 << 20, [this, exchange](Result<std::string> body) {
                                                if (body) answer(exchange, *body);
                                              });
                                        });
    server_ = std::move(made.value());
  }
  std::vector<std::string> unused() const {
    std::vector<std::string> left;
    for (const Recorded& one : exchanges_) {
      if (!one.used) left.push_back(one.method + " " + one.target);
    }
    return left;
  }

 private:
  void answer(const std::shared_ptr<net::Exchange>& exchange, const std::string& body) {
    for (Recorded& one : exchanges_) {
      if (one.used || one.method != exchange->head().method ||
          one.target != exchange->head().target || !same(one.body, body)) {
        continue;
      }
      one.used = true;
      net::ResponseHead head{one.status, "", {{"Content-Type", "application/json"}}};
      if (!one.watch()) return exchange->respond(std::move(head), one.answer);
      exchange->begin(std::move(head));
      exchange->write(one.answer + "\n");
      return watches_.push_back(exchange);
    }
    ADD_FAILURE() << "never recorded: " << exchange->head().method << " " << exchange->head().target
                  << " " << body;
    exchange->respond({404, "", {}}, "");
  }

  static bool same(const std::string& a, const std::string& b) {
    json::error_code ec, other;
    const json::value left = json::parse(a, ec), right = json::parse(b, other);
    return ec || other ? a == b : left == right;
  }

  std::vector<Recorded> exchanges_;
  std::vector<std::shared_ptr<net::Exchange>> watches_;  ///< kept open
  std::unique_ptr<net::HttpServer> server_;
};

Until in_virtual_time(net::SimLoop& loop) {
  return [&loop](const std::function<bool()>& so) {
    for (int i = 0; i < 6000 && !so(); ++i) loop.run_for(milliseconds(10));
    return so();
  };
}

TEST(Recorded, TheClientUnderstandsWhatARealServerAnswered) {
  net::SimLoop loop;
  net::SimNetwork network(loop, 1);
  const Replay replay(loop, network);
  ApiAccess access;
  access.server = {FakeApi::endpoint(), ""};
  const auto api = Api::make(loop, network, access, small_pages());
  run_scenario(*api, in_virtual_time(loop), kRecordedAt_s);
  EXPECT_THAT(replay.unused(), ::testing::IsEmpty());
}

TEST(Recorded, TheFakeServerPlaysTheSameScenario) {
  net::SimLoop loop;
  net::SimNetwork network(loop, 1);
  FakeApi server(loop, network);
  server.unserved = {"/apis/none.example/v1"};
  const auto api = Api::make(loop, network, server.access(), small_pages());
  run_scenario(*api, in_virtual_time(loop), kRecordedAt_s);
}

// ---- The fake against the real

/// Versions and list tokens of the real server as those of the fake one.
class Translation {
 public:
  void learn(const json::value& real, const json::value& fake) {
    for (const char* const key : {"/metadata/resourceVersion", "/metadata/continue"}) {
      json::error_code ec;
      const auto* const theirs = real.find_pointer(key, ec);
      const auto* const ours = fake.find_pointer(key, ec);
      if (theirs != nullptr && ours != nullptr && theirs->is_string() && ours->is_string()) {
        words_[theirs->as_string().c_str()] = ours->as_string().c_str();
      }
    }
  }
  std::string body(std::string text) const {
    for (const auto& [theirs, ours] : words_) {
      const std::string from = R"("resourceVersion":")" + theirs + '"';
      const std::size_t at = text.find(from);
      if (at == std::string::npos) continue;
      return text.replace(at, from.size(), R"("resourceVersion":")" + ours + '"');
    }
    return text;
  }
  std::string target(std::string text) const {
    const std::size_t at = text.find("continue=");
    if (at == std::string::npos) return text;
    const auto found = words_.find(text.substr(at + 9));
    if (found == words_.end()) return text;
    return with_query(text.substr(0, at - 1), "continue", found->second);
  }

 private:
  std::map<std::string, std::string> words_;
};

/// Is all that `asked` holds in `answered` too? The server adds defaults.
bool holds(const json::value& answered, const json::value& asked) {
  if (!asked.is_object()) return answered == asked;
  if (!answered.is_object()) return false;
  for (const auto& [key, value] : asked.get_object()) {
    const auto* const found = answered.get_object().if_contains(key);
    if (found == nullptr || !holds(*found, value)) return false;
  }
  return true;
}

TEST(Recorded, TheFakeServerAnswersAsTheRealOneDid) {
  net::SimLoop loop;
  net::SimNetwork network(loop, 1);
  FakeApi server(loop, network);
  server.unserved = {"/apis/none.example/v1"};
  const auto api = Api::make(loop, network, server.access());
  Translation translation;
  int compared = 0;
  for (const Recorded& one : recorded()) {
    if (one.watch()) continue;
    ApiRequest request{one.method, translation.target(one.target), translation.body(one.body),
                       one.content_type, 0};
    std::optional<Result<ApiAnswer>> answer;
    const auto call = api->send(request, [&](Result<ApiAnswer> done) { answer = std::move(done); });
    loop.run_for(seconds(20));
    const std::string name = one.method + " " + one.target;
    ASSERT_TRUE(answer && answer->has_value()) << name;
    EXPECT_EQ((*answer)->status, one.status) << name << "\n" << (*answer)->body;
    json::error_code ec;
    const json::value real = json::parse(one.answer, ec);
    if (ec) continue;
    const json::value fake = json::parse((*answer)->body, ec);
    ASSERT_FALSE(ec) << name;
    ++compared;
    translation.learn(real, fake);
    // What the fake says of an object must be what the real server says of it.
    for (const char* const part :
         {"/reason", "/spec/replicas", "/data", "/metadata/labels", "/spec/holderIdentity",
          "/spec/leaseTransitions", "/series", "/status/replicas"}) {
      const auto* const ours = fake.find_pointer(part, ec);
      const auto* const theirs = real.find_pointer(part, ec);
      if (ours != nullptr && theirs != nullptr) {
        EXPECT_TRUE(holds(*theirs, *ours)) << name << " " << part << "\n" << fake << "\n" << real;
      }
      EXPECT_TRUE(ours != nullptr || theirs == nullptr ||
                  std::string_view(part) != "/spec/replicas")
          << name << "\n"
          << fake << "\n"
          << real;
    }
    const auto* const items = fake.find_pointer("/items", ec);
    if (items != nullptr) {
      EXPECT_EQ(items->as_array().size(), real.at("items").as_array().size()) << name;
    }
  }
  EXPECT_GE(compared, 40);
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
