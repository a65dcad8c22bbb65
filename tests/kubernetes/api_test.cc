#include "tailrace/kubernetes/api.h"

#include <gmock/gmock.h>

#include "kubernetes/support/cluster.h"
#include "support/temp_folder.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kPod = "/api/v1/namespaces/llm/pods/a";

class ApiTest : public ClusterTest {};

TEST_F(ApiTest, AnswersWithWhatTheServerSaysWhateverTheStatus) {
  server.put(kPod, R"({"spec":{"nodeName":"n1"}})");
  const auto found = get(kPod);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, 200);
  EXPECT_THAT(found->body, HasSubstr(R"("nodeName":"n1")"));
  const auto missing = get("/api/v1/namespaces/llm/pods/b");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->status, 404);
}

TEST_F(ApiTest, SaysInWordsWhatAStatusMeans) {
  ApiRequest request;
  request.path = "/api/v1/pods?labelSelector=secret";
  const ApiAnswer forbidden{403, R"({"kind":"Status","message":"pods is forbidden"})", {}};
  EXPECT_THAT(error_of(request, forbidden).message,
              AllOf(HasSubstr("GET /api/v1/pods: 403"), HasSubstr("pods is forbidden"),
                    HasSubstr("RBAC"), Not(HasSubstr("labelSelector"))));
  const std::pair<int, ErrorCode> codes[] = {
      {400, ErrorCode::kInvalidArgument},   {404, ErrorCode::kNotFound},
      {409, ErrorCode::kAlreadyExists},     {422, ErrorCode::kInvalidArgument},
      {429, ErrorCode::kResourceExhausted}, {500, ErrorCode::kUnavailable},
      {504, ErrorCode::kDeadlineExceeded},  {401, ErrorCode::kUnavailable}};
  for (const auto& [status, code] : codes) {
    EXPECT_EQ(error_of(request, {status, "<html>", {}}).code, code) << status;
  }
}

TEST_F(ApiTest, RepeatsAGetThatMetATroubleAndNothingElse) {
  server.put(kPod, "{}");
  for (const int status : {429, 500, 502, 503, 504}) {
    int troubles = 2;
    server.fault = [&](const SeenRequest&) -> std::optional<Fault> {
      if (troubles-- > 0) return failing(status);
      return std::nullopt;
    };
    const auto answer = get(kPod);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200) << status;
    troubles = 1;
    ApiRequest patch;
    patch.method = "PATCH";
    patch.path = kPod;
    patch.body = "{}";
    patch.content_type = kMergePatch;
    server.seen.clear();
    EXPECT_EQ(send(patch)->status, status) << "the caller decides whether to repeat a write";
    EXPECT_EQ(server.count("PATCH", kPod), 1);
  }
}

TEST_F(ApiTest, RepeatsAGetWhoseConnectionBroke) {
  server.put(kPod, "{}");
  int cuts = 2;
  server.fault = [&](const SeenRequest&) -> std::optional<Fault> {
    if (cuts-- <= 0) return std::nullopt;
    Fault fault;
    fault.cut_before = true;
    return fault;
  };
  EXPECT_EQ(get(kPod)->status, 200);
  server.stop();
  const auto down = get(kPod);
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(down.error().message, HasSubstr("GET " + kPod));
}

TEST_F(ApiTest, WaitsAsLongAsTheServerAsks) {
  server.put(kPod, "{}");
  std::vector<double> at;
  server.fault = [&](const SeenRequest&) -> std::optional<Fault> {
    at.push_back(to_seconds(loop.now()));
    if (at.size() == 1) return failing(429, 7);
    return std::nullopt;
  };
  EXPECT_EQ(get(kPod)->status, 200);
  ASSERT_EQ(at.size(), 2U);
  EXPECT_GE(at[1] - at[0], 7);
  at.clear();
  server.fault = [&](const SeenRequest&) -> std::optional<Fault> { return failing(429, 3600); };
  const auto busy = get(kPod);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->status, 429) << "beyond the time-out the caller is told at once";
  EXPECT_EQ(busy->retry_after_s, 3600);
}

TEST_F(ApiTest, GivesUpInTimeWhateverTheServerDoes) {
  server.put(kPod, "{}");
  server.fault = [&](const SeenRequest&) -> std::optional<Fault> {
    Fault slow;
    slow.delay = seconds(600);
    return slow;
  };
  ApiRequest request;
  request.path = kPod;
  request.timeout_s = 4;
  std::optional<double> at;
  std::optional<Result<ApiAnswer>> result;
  const auto call = api->send(request, [&](Result<ApiAnswer> answer) {
    at = to_seconds(loop.now());
    result = std::move(answer);
  });
  run(seconds(30));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NEAR(*at, 4, 0.1);
}

TEST_F(ApiTest, RefusesAnAnswerOfTooManyBytes) {
  ApiConfig config;
  config.answer_bytes_max = 1000;
  api = Api::make(loop, network, server.access(), config);
  server.put(kPod, R"({"data":")" + std::string(2000, 'x') + R"("})");
  const auto answer = get(kPod);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(ApiTest, ReportsNothingOnceDestroyedAndMayBeDestroyedByItsHandler) {
  server.put(kPod, "{}");
  ApiRequest request;
  request.path = kPod;
  int reported = 0;
  auto cancelled = api->send(request, [&](const Result<ApiAnswer>&) { ++reported; });
  cancelled.reset();
  run(seconds(60));
  EXPECT_EQ(reported, 0);
  std::unique_ptr<ApiCall> call;
  call = api->send(request, [&](const Result<ApiAnswer>&) {
    call.reset();
    ++reported;
  });
  api.reset();
  run(seconds(60));
  EXPECT_EQ(reported, 1);
  EXPECT_EQ(network.open_streams(), 0U);
}

TEST_F(ApiTest, SendsTheTokenThatIsMountedNow) {
  const TempFolder folder;
  const std::string file = folder.file("token");
  ApiAccess access = server.access();
  access.token_file = file;
  api = Api::make(loop, network, access);
  server.put(kPod, "{}");
  folder.write("token", "first\n");
  ASSERT_TRUE(get(kPod));
  EXPECT_EQ(server.seen.back().authorization, "Bearer first");
  folder.write("token", "second");
  ASSERT_TRUE(get(kPod));
  EXPECT_EQ(server.seen.back().authorization, "Bearer second");
  folder.write("token", "no\r\nX-Evil: 1");
  ASSERT_TRUE(get(kPod));
  EXPECT_EQ(server.seen.back().authorization, "Bearer second") << "the last good one";
  std::remove(file.c_str());
  ASSERT_TRUE(get(kPod));
  EXPECT_EQ(server.seen.back().authorization, "Bearer second");
}

TEST_F(ApiTest, NeverTellsTheToken) {
  ApiAccess access = server.access();
  access.token = "my-secret-token";
  api = Api::make(loop, network, access);
  server.stop();
  const auto answer = get(kPod);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, Not(HasSubstr("my-secret-token")));
}

// ---- Lists

class ListTest : public ClusterTest {
 protected:
  ListTest() {
    ApiConfig config;
    config.page_objects = 3;
    api = Api::make(loop, network, server.access(), config);
    for (int i = 0; i < 8; ++i) {
      server.put("/api/v1/namespaces/llm/pods/p" + std::to_string(i),
                 i % 2 == 0 ? R"({"metadata":{"labels":{"app":"x"}}})" : "{}");
    }
    server.put("/api/v1/namespaces/other/pods/q", "{}");
    server.put("/api/v1/namespaces/llm/services/s", "{}");
  }
};

TEST_F(ListTest, JoinsThePages) {
  EXPECT_EQ(list("/api/v1/namespaces/llm/pods")->size(), 8U);
  EXPECT_EQ(server.count("GET", "pods?limit=3"), 3);
  EXPECT_EQ(list("/api/v1/pods")->size(), 9U);
  EXPECT_EQ(list(with_query("/api/v1/pods", "labelSelector", "app=x"))->size(), 4U);
  EXPECT_EQ(list("/api/v1/namespaces/none/pods")->size(), 0U);
}

TEST_F(ListTest, BeginsAnewWhenThePlaceIsForgotten) {
  int pages = 0;
  server.fault = [&](const SeenRequest& request) -> std::optional<Fault> {
    if (request.target.find("continue=") != std::string::npos && ++pages == 2) {
      server.put("/api/v1/namespaces/llm/pods/new", "{}");
      server.compact();
    }
    return std::nullopt;
  };
  const auto all = list("/api/v1/namespaces/llm/pods");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 9U) << "each object once, of one moment";
}

TEST_F(ListTest, GivesUpOnAServerThatForgetsEveryTime) {
  server.fault = [&](const SeenRequest& request) -> std::optional<Fault> {
    if (request.target.find("continue=") == std::string::npos) return std::nullopt;
    return failing(410);
  };
  const auto all = list("/api/v1/namespaces/llm/pods");
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message, HasSubstr("410"));
}

TEST_F(ListTest, SaysWhyThereIsNone) {
  server.fault = [](const SeenRequest&) { return failing(404); };
  EXPECT_EQ(list("/apis/keda.sh/v1alpha1/scaledobjects").error().code, ErrorCode::kNotFound);
  server.fault = [](const SeenRequest&) {
    Fault html;
    html.status = 200;
    html.body = "<html>sign in</html>";
    return html;
  };
  EXPECT_EQ(list("/api/v1/pods").error().code, ErrorCode::kDataLoss);
  server.fault = [](const SeenRequest&) {
    Fault endless;
    endless.status = 200;
    endless.body = R"({"metadata":{"resourceVersion":"1","continue":"x"},"items":[]})";
    return endless;
  };
  EXPECT_EQ(list("/api/v1/pods").error().code, ErrorCode::kDataLoss);
}

// ---- Access

struct Access : ::testing::Test {
  TempFolder folder;

  std::string kubeconfig(const std::string& user, const std::string& cluster = "") const {
    return folder.write("kubeconfig", R"(apiVersion: v1
kind: Config
current-context: here
contexts:
- name: there
  context: {cluster: other, user: other}
- name: here
  context:
    cluster: c
    user: u
    namespace: llm
clusters:
- name: c
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority: pki/ca.crt
)" + cluster + R"(users:
- name: u
  user:
)" + user);
  }
};

TEST_F(Access, ReadsAKubeconfigsCurrentContext) {
  const auto access = kubeconfig_access(
      kubeconfig("    client-certificate-data: LS0tLUE=\n    client-key-data: LS0tLUI=\n"));
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->server.endpoint, (net::Endpoint{"127.0.0.1", 6443, true}));
  EXPECT_EQ(access->ns, "llm");
  EXPECT_EQ(access->client_certificate_pem, "----A");
  EXPECT_EQ(access->client_key_pem, "----B");
  EXPECT_EQ(access->ca_file, folder.file("pki/ca.crt")) << "beside the kubeconfig";
  EXPECT_EQ(tls_options(*access).client_key_pem, "----B");
  EXPECT_EQ(kubeconfig_access(kubeconfig("    token: abc\n"))->token, "abc");
  EXPECT_EQ(kubeconfig_access(kubeconfig("    tokenFile: /run/token\n"))->token_file, "/run/token");
}

TEST_F(Access, RefusesInWordsWhatItCannotUse) {
  const std::pair<std::string, std::string> cases[] = {
      {"    exec: {command: aws}\n", "user.exec"},
      {"    auth-provider: {name: gcp}\n", "user.auth-provider"},
      {"    username: me\n    password: SECRET\n", "user.username"},
      {"    client-certificate-data: LS0tLUE=\n", "needs both"},
      {"    client-certificate-data: '*SECRET*'\n    client-key-data: LS0tLUI=\n", "no base64"},
      {"    token: \"SECRET\\n\"\n", "user.token"},
  };
  for (const auto& [user, says] : cases) {
    const auto access = kubeconfig_access(kubeconfig(user));
    ASSERT_FALSE(access) << user;
    EXPECT_THAT(access.error().message, AllOf(HasSubstr(says), Not(HasSubstr("SECRET")))) << user;
  }
  const auto proxied = kubeconfig_access(kubeconfig("    token: a\n", "    proxy-url: http://p\n"));
  EXPECT_EQ(proxied.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(kubeconfig_access("/nowhere/config").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(kubeconfig_access(folder.write("kubeconfig", "{}")).error().message,
              HasSubstr("current-context"));
}

TEST_F(Access, KnowsThatItIsInNoPod) {
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  const auto access = in_cluster_access();
  ASSERT_FALSE(access);
  EXPECT_EQ(access.error().code, ErrorCode::kNotFound);
}

TEST_F(Access, FindsThePodsServiceAccount) {
  folder.write("token", "abc");
  folder.write("namespace", "llm\n");
  ::setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto access = in_cluster_access(folder.path().string());
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->server.endpoint, (net::Endpoint{"fd00::1", 443, true}));
  EXPECT_EQ(access->ns, "llm");
  EXPECT_EQ(access->token_file, folder.file("token"));
}

}  // namespace
}  // namespace tailrace::kubernetes::testing
