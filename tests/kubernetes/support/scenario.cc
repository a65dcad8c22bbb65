#include "kubernetes/support/scenario.h"

#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <optional>
#include <vector>

#include "kubernetes/lease_document.h"
#include "tailrace/kubernetes/config_map.h"
#include "tailrace/kubernetes/events.h"
#include "tailrace/kubernetes/scale.h"

namespace tailrace::kubernetes::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

const std::string kNs = "scenario";
const std::string kDeployments = "/apis/apps/v1/namespaces/scenario/deployments";
const std::string kScaledObjects = "/apis/keda.sh/v1alpha1/namespaces/scenario/scaledobjects";
const std::string kLeases = "/apis/coordination.k8s.io/v1/namespaces/scenario/leases";

std::string deployment(const std::string& name) {
  return R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":")" + name +
         R"(","labels":{"app":"vllm"},"annotations":{"tailrace.dev/model-id":"llama"}},)"
         R"("spec":{"replicas":2,"selector":{"matchLabels":{"app":")" +
         name + R"("}},"template":{"metadata":{"labels":{"app":")" + name +
         R"("}},"spec":{"containers":[{"name":"vllm","image":"vllm/vllm-openai:v0.8",)"
         R"("args":["--max-num-seqs=64"]}]}}}})";
}

class Scenario {
 public:
  Scenario(Api& api, const Until& until, double calendar_s)
      : api_(api), until_(until), calendar_(calendar_s) {}

  void run() {
    create_objects();
    list_in_pages();
    watch();
    scale();
    config_map();
    lease();
    events();
    erase();
  }

 private:
  template <class T, class Start>
  Result<T> wait(Start&& start) {
    std::optional<Result<T>> result;
    const auto call = start([&](Result<T> done) { result = std::move(done); });
    EXPECT_TRUE(until_([&] { return result.has_value(); }));
    return result ? std::move(*result) : fail(ErrorCode::kInternal, "no answer");
  }
  /// The status; 0 without an answer.
  int send(const std::string& method, const std::string& path, const std::string& body = "",
           std::string* answered = nullptr) {
    ApiRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    if (method == "PATCH") request.content_type = kMergePatch;
    const auto answer =
        wait<ApiAnswer>([&](auto done) { return api_.send(std::move(request), std::move(done)); });
    if (!answer) {
      ADD_FAILURE() << method << " " << path << ": " << answer.error().message;
      return 0;
    }
    if (answered != nullptr) *answered = answer->body;
    return answer->status;
  }

  void create_objects() {
    EXPECT_EQ(send("POST", "/api/v1/namespaces",
                   R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"scenario"}})"),
              201);
    for (const char* const name : {"a", "b", "c"}) {
      EXPECT_EQ(send("POST", kDeployments, deployment(name)), 201);
    }
    EXPECT_EQ(send("POST", kDeployments, deployment("a")), 409);
    EXPECT_EQ(send("POST", kScaledObjects,
                   R"({"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","metadata":)"
                   R"({"name":"a","annotations":{"llm-d.ai/managed":"true"}},)"
                   R"("spec":{"scaleTargetRef":{"name":"a"},"minReplicaCount":1}})"),
              201);
  }

  void list_in_pages() {
    const auto all = wait<std::vector<std::string>>(
        [&](auto done) { return api_.list(kDeployments, std::move(done)); });
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->size(), 3U);
    EXPECT_THAT(all->at(2), HasSubstr("--max-num-seqs=64"));
    const auto none = wait<std::vector<std::string>>([&](auto done) {
      return api_.list(with_query(kDeployments, "labelSelector", "app=sglang"), std::move(done));
    });
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_EQ(none->size(), 0U);
    const auto scaled = wait<std::vector<std::string>>(
        [&](auto done) { return api_.list(kScaledObjects, std::move(done)); });
    ASSERT_TRUE(scaled) << scaled.error().message;
    EXPECT_THAT(scaled->at(0), HasSubstr("scaleTargetRef"));
  }

  void watch() {
    std::vector<std::string> told;
    bool synced = false;
    WatchHandlers handlers;
    handlers.on_event = [&](std::string_view type, std::string_view object) {
      const auto parsed =
          boost::json::parse(boost::json::string_view(object.data(), object.size()));
      const std::string name = parsed.at_pointer("/metadata/name").as_string().c_str();
      if (name.starts_with("watched")) told.push_back(std::string(type) + " " + name);
    };
    handlers.on_synced = [&] { synced = true; };
    const auto call = api_.watch(config_map_path(kNs), std::move(handlers));
    EXPECT_TRUE(until_([&] { return synced; }));
    EXPECT_EQ(send("POST", config_map_path(kNs),
                   R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"watched"},)"
                   R"("data":{"a":"1"}})"),
              201);
    EXPECT_EQ(send("PATCH", config_map_path(kNs, "watched"), R"({"data":{"a":"2"}})"), 200);
    EXPECT_EQ(send("DELETE", config_map_path(kNs, "watched")), 200);
    EXPECT_TRUE(until_([&] { return told.size() >= 3; }));
    EXPECT_THAT(told,
                ::testing::ElementsAre("ADDED watched", "MODIFIED watched", "DELETED watched"));
  }

  void scale() {
    const std::string path = kDeployments + "/a/scale";
    const auto change = [&](const std::string& of, std::int64_t from, std::int64_t to) {
      return wait<ScaleOutcome>(
          [&](auto done) { return change_scale(api_, {of, from, to}, std::move(done)); });
    };
    const auto first =
        wait<Scale>([&](auto done) { return read_scale(api_, path, std::move(done)); });
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->spec_replicas, 2);
    EXPECT_EQ(first->selector, "app=a");
    const auto up = change(path, 2, 5);
    ASSERT_TRUE(up) << up.error().message;
    EXPECT_EQ(up->kind, ScaleOutcome::Kind::kPatched);
    EXPECT_EQ(up->scale.spec_replicas, 5);
    EXPECT_EQ(change(path, 2, 5)->kind, ScaleOutcome::Kind::kAlready);
    EXPECT_EQ(change(path, 2, 6)->kind, ScaleOutcome::Kind::kOvertaken);
    EXPECT_EQ(change(path, 5, -1).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(send("PATCH", path,
                   R"({"metadata":{"resourceVersion":")" + first->resource_version +
                       R"("},"spec":{"replicas":7}})"),
              409)
        << "an old version is refused";
    const auto none = change(path, 5, 0);
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_EQ(none->scale.spec_replicas, 0);
    EXPECT_EQ(change(kDeployments + "/nobody/scale", 1, 2).error().code, ErrorCode::kNotFound);
  }

  void config_map() {
    const auto read = [&] {
      return wait<std::optional<ConfigMap>>(
          [&](auto done) { return read_config_map(api_, kNs, "state", std::move(done)); });
    };
    const auto write = [&](const ConfigMap& map) {
      return wait<ConfigMap>(
          [&](auto done) { return write_config_map(api_, map, std::move(done)); });
    };
    const auto before = read();
    ASSERT_TRUE(before) << before.error().message;
    EXPECT_FALSE(before->has_value());
    ConfigMap map;
    map.ns = kNs;
    map.name = "state";
    map.labels = {{"app.kubernetes.io/name", "tailrace"}};
    map.data = {{"state", "{\"n\":1}\n"}, {"other", "x"}};
    const auto created = write(map);
    ASSERT_TRUE(created) << created.error().message;
    EXPECT_EQ(write(map).error().code, ErrorCode::kAlreadyExists);
    ConfigMap next = *created;
    next.data = {{"state", "{\"n\":2}\n"}};
    const auto changed = write(next);
    ASSERT_TRUE(changed) << changed.error().message;
    EXPECT_EQ(changed->data.at("other"), "x");
    EXPECT_EQ(changed->labels, map.labels);
    EXPECT_EQ(write(*created).error().code, ErrorCode::kAlreadyExists);
  }

  void lease() {
    LeaseClaim claim;
    claim.holder = "a";
    claim.acquire_time = claim.renew_time = micro_time(calendar_.unix_s());
    std::string document, changed;
    EXPECT_EQ(send("GET", kLeases + "/elect"), 404);
    ASSERT_EQ(send("POST", kLeases, new_lease(kNs, "elect", claim), &document), 201);
    EXPECT_EQ(send("POST", kLeases, new_lease(kNs, "elect", claim)), 409);
    claim.renew_time = micro_time(calendar_.unix_s() + 2.25);
    ASSERT_EQ(send("PUT", kLeases + "/elect", changed_lease(document, claim), &changed), 200);
    claim.holder = "b";
    EXPECT_EQ(send("PUT", kLeases + "/elect", changed_lease(document, claim)), 409);
    const auto held = parse_lease(changed);
    ASSERT_TRUE(held) << held.error().message;
    EXPECT_EQ(held->holder, "a");
    EXPECT_EQ(held->duration_s, 15);
    claim.holder = "";
    claim.lease_s = 1;
    ASSERT_EQ(send("PUT", kLeases + "/elect", changed_lease(changed, claim), &document), 200);
    EXPECT_EQ(parse_lease(document)->holder, "");
    EXPECT_EQ(send("DELETE", kLeases + "/elect"), 200);
    EXPECT_THAT(send("PUT", kLeases + "/elect", changed_lease(document, claim)),
                ::testing::AnyOf(404, 409));
  }

  void events() {
    EventsConfig config;
    config.instance = "tailrace-0";
    config.repeat_s = 0;
    const auto recorder = EventRecorder::make(api_, calendar_, config);
    EventNote note;
    note.about = {"apps/v1", "Deployment", kNs, "a", "uid-a"};
    note.reason = "ScaledUp";
    note.note = "2 to 5 replicas: the rate rises";
    recorder->record(1, note);
    EXPECT_TRUE(until_([&] { return recorder->seen().sent == 1; }));
    recorder->record(2, note);
    EXPECT_TRUE(until_([&] { return recorder->seen().repeated == 1; }));
    EXPECT_EQ(recorder->seen().failed, 0U);
    const auto all = wait<std::vector<std::string>>([&](auto done) {
      return api_.list("/apis/events.k8s.io/v1/namespaces/scenario/events", std::move(done));
    });
    ASSERT_TRUE(all) << all.error().message;
    ASSERT_EQ(all->size(), 1U);
    EXPECT_THAT(all->at(0), HasSubstr("\"count\":2"));
  }

  void erase() {
    EXPECT_EQ(send("DELETE", kDeployments + "/b"), 200);
    EXPECT_EQ(send("GET", kDeployments + "/b"), 404);
    EXPECT_EQ(send("GET", "/apis/none.example/v1/things"), 404);
  }

  Api& api_;
  const Until& until_;
  ManualCalendar calendar_;
};

}  // namespace

void run_scenario(Api& api, const Until& until, double calendar_s) {
  Scenario(api, until, calendar_s).run();
}

}  // namespace tailrace::kubernetes::testing
