// The roles in deploy/ grant what the code asks for, and nothing else.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kubernetes/discovery_paths.h"
#include "kubernetes/support/object_api.h"
#include "tailrace/core/text.h"
#include "tailrace/core/yaml_tree.h"
#include "tailrace/kubernetes/config_map.h"
#include "tailrace/kubernetes/discovery.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::kubernetes {
namespace {

constexpr const char* kOwn = "workload-variant-autoscaler-system";

/// What a request needs, as the API server's authorizer sees it.
struct Need {
  std::string verb, group, resource, ns, name;
};

Need need_of(const std::string& method, const std::string& request, bool watch = false) {
  const std::string path = request.substr(1, request.find('?') - 1);
  const auto parts = core::split(path, '/');
  const bool core_group = parts[0] == "api";
  std::size_t at = core_group ? 2 : 3;
  Need need;
  if (!core_group) need.group = parts[1];
  if (parts[at] == "namespaces" && parts.size() > at + 2) {
    need.ns = parts[at + 1];
    at += 2;
  }
  need.resource = parts[at];
  if (parts.size() > at + 1) need.name = parts[at + 1];
  if (parts.size() > at + 2) need.resource += "/" + std::string(parts[at + 2]);
  constexpr std::string_view kField = "fieldSelector=metadata.name%3D";
  if (const auto field = request.find(kField); field != std::string::npos) {
    need.name = request.substr(field + kField.size());
  }
  if (method == "GET") need.verb = watch ? "watch" : parts.size() > at + 1 ? "get" : "list";
  if (method == "POST") need.verb = "create";
  if (method == "PUT") need.verb = "update";
  if (method == "PATCH") need.verb = "patch";
  return need;
}

struct Rule {
  std::vector<std::string> groups, resources, verbs, names;
  std::string ns;  ///< "": everywhere
  std::string file;
};

const core::YamlNode* member(const core::YamlNode& node, std::string_view key) {
  for (const auto& [name, value] : node.members) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::vector<std::string> texts(const core::YamlNode& rule, std::string_view key) {
  std::vector<std::string> all;
  if (const auto* list = member(rule, key)) {
    for (const auto& item : list->items) all.push_back(item.text);
  }
  return all;
}

std::vector<core::YamlNode> documents_of(const std::string& file) {
  const auto text = core::read_file(fmt::format("{}/{}", TAILRACE_SOURCE_DIR, file), 1 << 20);
  EXPECT_TRUE(text) << file;
  std::vector<core::YamlNode> documents;
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const auto end = rest.find("\n---\n");
    const auto document = core::parse_yaml(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 5);
    EXPECT_TRUE(document) << file;
    if (document) documents.push_back(*document);
  }
  return documents;
}

std::vector<Rule> rules_of(const std::string& file) {
  std::vector<Rule> rules;
  for (const auto& document : documents_of(file)) {
    const auto* all = member(document, "rules");
    if (all == nullptr) continue;
    const auto* ns = member(*member(document, "metadata"), "namespace");
    for (const auto& rule : all->items) {
      rules.push_back({texts(rule, "apiGroups"), texts(rule, "resources"), texts(rule, "verbs"),
                       texts(rule, "resourceNames"), ns == nullptr ? "" : ns->text, file});
    }
  }
  return rules;
}

bool has(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool grants(const Rule& rule, const Need& need) {
  return has(rule.groups, need.group) && has(rule.resources, need.resource) &&
         has(rule.verbs, need.verb) && (rule.ns.empty() || rule.ns == need.ns) &&
         (rule.names.empty() || has(rule.names, need.name));
}

/// Every list that discovery asks for, of a cluster with a variant of each kind.
std::vector<Need> discovery_needs() {
  net::SimLoop loop;
  testing::ObjectApi api;
  api.lists[paths::deployments("")] = {
      R"j({"metadata":{"namespace":"llm","name":"a","annotations":{"tailrace.dev/model-id":"m"}},
           "spec":{"selector":{"matchLabels":{"app":"a"}}}})j"};
  const auto discovery = Discovery::make(loop, api, {});
  bool found = false;
  discovery->discover([&](const Result<Inventory>& got) { found = got && !got->variants.empty(); });
  loop.run_for(std::chrono::seconds(1));
  EXPECT_TRUE(found);
  std::vector<Need> needs;
  for (const auto& path : api.asked) needs.push_back(need_of("GET", path));
  return needs;
}

std::vector<Need> all_needs() {
  auto needs = discovery_needs();
  const auto add = [&](const std::string& method, const std::string& path, bool watch = false) {
    needs.push_back(need_of(method, path, watch));
  };
  const auto settings =
      with_query(config_map_path(kOwn), "fieldSelector", "metadata.name=wva-queueing-model-config");
  add("GET", settings, true);
  needs.push_back(need_of("GET", settings));
  add("GET", config_map_path(kOwn, "tailrace-autoscaler-state"));
  add("PATCH", config_map_path(kOwn, "tailrace-autoscaler-state"));
  add("POST", config_map_path(kOwn));
  const std::string leases = fmt::format("/apis/coordination.k8s.io/v1/namespaces/{}/leases", kOwn);
  add("GET", leases + "/tailrace-autoscaler");
  add("PUT", leases + "/tailrace-autoscaler");
  add("POST", leases);
  add("POST", "/apis/events.k8s.io/v1/namespaces/llm/events");
  add("PATCH", "/apis/events.k8s.io/v1/namespaces/llm/events/e");
  for (const TargetRef& target :
       {TargetRef{"apps/v1", "Deployment", "llm", "a"},
        TargetRef{"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llm", "b"}}) {
    add("GET", target.scale_path());
    add("PATCH", target.scale_path());
  }
  return needs;
}

std::vector<Rule> all_rules() {
  auto rules = rules_of("deploy/rbac.yaml");
  for (auto& rule : rules_of("deploy/rbac-scale.yaml")) rules.push_back(std::move(rule));
  return rules;
}

TEST(Rbac, EveryRequestIsGranted) {
  const auto rules = all_rules();
  ASSERT_FALSE(rules.empty());
  for (const auto& need : all_needs()) {
    EXPECT_TRUE(std::any_of(rules.begin(), rules.end(),
                            [&](const Rule& rule) { return grants(rule, need); }))
        << need.verb << " " << need.group << "/" << need.resource << " " << need.ns << "/"
        << need.name;
  }
}

TEST(Rbac, NothingIsGrantedThatNobodyAsksFor) {
  const auto needs = all_needs();
  for (const auto& rule : all_rules()) {
    for (const auto& group : rule.groups) {
      for (const auto& resource : rule.resources) {
        for (const auto& verb : rule.verbs) {
          Rule one{{group}, {resource}, {verb}, rule.names, rule.ns, rule.file};
          EXPECT_TRUE(std::any_of(needs.begin(), needs.end(),
                                  [&](const Need& need) { return grants(one, need); }))
              << rule.file << ": " << verb << " " << group << "/" << resource;
        }
      }
    }
  }
}

TEST(Rbac, NothingIsGrantedByWildcard) {
  for (const auto& rule : all_rules()) {
    for (const auto* part : {&rule.groups, &rule.resources, &rule.verbs}) {
      EXPECT_FALSE(has(*part, "*")) << rule.file;
    }
  }
}

TEST(Rbac, SecretsAreNobodysBusiness) {
  for (const auto& rule : all_rules()) EXPECT_FALSE(has(rule.resources, "secrets"));
}

TEST(Rbac, WhoDoesNotScaleMayNotScale) {
  for (const auto& rule : rules_of("deploy/rbac.yaml")) {
    for (const auto& resource : rule.resources) {
      EXPECT_EQ(resource.find("/scale"), std::string::npos);
    }
    EXPECT_FALSE(has(rule.verbs, "delete"));
  }
}

/// What WVA's roles do not grant of what is asked for: "verb group/resource".
std::set<std::string> beyond_wva() {
  const auto rules = rules_of("tests/kubernetes/data/wva_role.yaml");
  EXPECT_EQ(rules.size(), 15U);
  std::set<std::string> missing;
  for (const auto& need : all_needs()) {
    if (std::none_of(rules.begin(), rules.end(),
                     [&](const Rule& rule) { return grants(rule, need); })) {
      missing.insert(fmt::format("{} {}/{}", need.verb, need.group, need.resource));
    }
  }
  return missing;
}

// Its roles may stay as they are; what they lack is what deploy/rbac.yaml is for.
TEST(Rbac, BesideWvasRolesOnlyTheseRightsAreNeeded) {
  EXPECT_THAT(beyond_wva(),
              ::testing::ElementsAre("create /configmaps", "create events.k8s.io/events",
                                     "get leaderworkerset.x-k8s.io/leaderworkersets/scale",
                                     "list autoscaling/horizontalpodautoscalers",
                                     "list keda.sh/scaledobjects", "patch /configmaps",
                                     "patch apps/deployments/scale", "patch events.k8s.io/events",
                                     "patch leaderworkerset.x-k8s.io/leaderworkersets/scale"));
}

TEST(Rbac, NoObjectOfOursTakesANameOfWvas) {
  const auto names = [](const std::string& file) {
    std::set<std::string> all;
    for (const auto& document : documents_of(file)) {
      all.insert(member(document, "kind")->text + " " +
                 member(*member(document, "metadata"), "name")->text);
    }
    return all;
  };
  auto theirs = names("tests/kubernetes/data/wva_role.yaml");
  theirs.insert("ServiceAccount workload-variant-autoscaler-controller-manager");
  theirs.insert("Deployment workload-variant-autoscaler-controller-manager");
  for (const char* file :
       {"deploy/rbac.yaml", "deploy/rbac-scale.yaml", "deploy/autoscaler.yaml"}) {
    for (const auto& name : names(file)) EXPECT_FALSE(theirs.contains(name)) << name;
  }
}

}  // namespace
}  // namespace tailrace::kubernetes
