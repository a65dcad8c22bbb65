// Who we are, by a pod's service account or by a kubeconfig.
#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tailrace/core/environment.h"
#include "tailrace/core/text.h"
#include "tailrace/core/yaml_tree.h"
#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes {
namespace {

using core::YamlNode;

constexpr std::size_t kFileBytesMax = 1 << 20;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const YamlNode* child(const YamlNode& node, std::string_view key) {
  for (const auto& member : node.members) {
    if (member.key == key) return &member.node;
  }
  return nullptr;
}

std::string text_of(const YamlNode& node, std::string_view key) {
  const YamlNode* const found = child(node, key);
  return found != nullptr && found->kind == YamlNode::Kind::kScalar ? found->text : "";
}

/// Nothing for what is no base64.
std::optional<std::string> decoded(std::string_view base64) {
  std::string bytes(base64.size() / 4 * 3 + 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(base64.data()),
                                   static_cast<int>(base64.size()));
  if (size < 0) return std::nullopt;
  const auto padding = static_cast<std::size_t>(std::count(
      base64.end() - std::min<std::ptrdiff_t>(2, std::ssize(base64)), base64.end(), '='));
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

/// One kubeconfig. Its values are never part of a message: they may be secrets.
class Kubeconfig {
 public:
  explicit Kubeconfig(const std::string& path)
      : path_(path), folder_(std::filesystem::path(path).parent_path()) {}

  Result<ApiAccess> read() {
    const auto text = core::read_regular_file(path_, kFileBytesMax);
    if (!text) return fail(text.error().with_context("kubeconfig"));
    auto root = core::parse_yaml(*text);
    if (!root) return wrong("is not readable: line " + root.error().message);
    const std::string current = text_of(*root, "current-context");
    if (current.empty()) {
      return wrong("has no current-context; set one with `kubectl config use-context NAME`");
    }
    const YamlNode* const context = named(*root, "contexts", "context", current);
    if (context == nullptr) return wrong("has no context " + core::quoted(current));
    const std::string cluster_name = text_of(*context, "cluster");
    const YamlNode* const cluster = named(*root, "clusters", "cluster", cluster_name);
    if (cluster == nullptr) return wrong("has no cluster " + core::quoted(cluster_name));
    ApiAccess access;
    access.ns = text_of(*context, "namespace");
    if (access.ns.empty()) access.ns = "default";
    if (auto ok = read_cluster(*cluster, access); !ok) return fail(ok.error());
    const std::string user_name = text_of(*context, "user");
    if (user_name.empty()) return access;
    const YamlNode* const user = named(*root, "users", "user", user_name);
    if (user == nullptr) return wrong("has no user " + core::quoted(user_name));
    if (auto ok = read_user(*user, access); !ok) return fail(ok.error());
    return access;
  }

 private:
  tl::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument, "kubeconfig " + path_ + " " + std::string(what));
  }
  tl::unexpected<Error> unsupported(std::string_view key, std::string_view remedy) const {
    return fail(ErrorCode::kUnsupported, "kubeconfig " + path_ + ": " + std::string(key) +
                                             " is not supported; " + std::string(remedy));
  }

  static const YamlNode* named(const YamlNode& root, std::string_view list, std::string_view what,
                               const std::string& name) {
    const YamlNode* const all = child(root, list);
    if (all == nullptr) return nullptr;
    for (const YamlNode& item : all->items) {
      if (text_of(item, "name") == name) return child(item, what);
    }
    return nullptr;
  }

  Result<void> read_cluster(const YamlNode& cluster, ApiAccess& access) {
    const std::string server = text_of(cluster, "server");
    if (server.empty()) return wrong("names no server for its current cluster");
    auto url = net::parse_url(server);
    if (!url) return wrong("has an unusable cluster.server: " + url.error().message);
    access.server = std::move(*url);
    if (child(cluster, "proxy-url") != nullptr) {
      return unsupported("proxy-url", "reach the server directly");
    }
    if (child(cluster, "tls-server-name") != nullptr) {
      return unsupported("tls-server-name", "use the name of the certificate in cluster.server");
    }
    access.insecure_skip_verify = text_of(cluster, "insecure-skip-tls-verify") == "true";
    return material(cluster, "certificate-authority", access.ca_file, access.ca_pem);
  }

  Result<void> read_user(const YamlNode& user, ApiAccess& access) {
    for (const char* const plugin : {"exec", "auth-provider"}) {
      if (child(user, plugin) != nullptr) {
        return unsupported(std::string("the credential plug-in user.") + plugin,
                           "use a token (`kubectl create token NAME`) or a client certificate");
      }
    }
    if (child(user, "username") != nullptr || child(user, "password") != nullptr) {
      return unsupported("user.username with a password", "use a token or a client certificate");
    }
    for (const char* const as : {"as", "as-uid", "as-groups", "as-user-extra"}) {
      if (child(user, as) != nullptr) {
        return unsupported(std::string("impersonation by user.") + as, "use an account of its own");
      }
    }
    access.token = text_of(user, "token");
    if (!access.token.empty() && !core::can_be_token(access.token))
      return wrong("has a user.token with blanks or control characters");
    if (const std::string file = text_of(user, "tokenFile"); !file.empty()) {
      access.token_file = beside(file);
    }
    if (auto ok = material(user, "client-certificate", access.client_certificate_file,
                           access.client_certificate_pem);
        !ok) {
      return ok;
    }
    if (auto ok = material(user, "client-key", access.client_key_file, access.client_key_pem);
        !ok) {
      return ok;
    }
    const bool certificate =
        !access.client_certificate_file.empty() || !access.client_certificate_pem.empty();
    const bool key = !access.client_key_file.empty() || !access.client_key_pem.empty();
    if (certificate != key) {
      return wrong("has one of user.client-certificate and user.client-key; it needs both");
    }
    return {};
  }

  /// KEY names a file, KEY-data holds its bytes, which win, as with kubectl.
  Result<void> material(const YamlNode& node, const std::string& key, std::string& file,
                        std::string& pem) {
    if (const std::string data = text_of(node, key + "-data"); !data.empty()) {
      auto bytes = decoded(data);
      if (!bytes) return wrong("has a " + key + "-data that is no base64");
      pem = std::move(*bytes);
    } else if (const std::string name = text_of(node, key); !name.empty()) {
      file = beside(name);
    }
    return {};
  }

  /// Relative names are relative to the kubeconfig.
  std::string beside(const std::string& name) const { return (folder_ / name).string(); }

  const std::string path_;
  const std::filesystem::path folder_;
};

}  // namespace

Result<ApiAccess> in_cluster_access(const std::string& folder) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  const std::string token_file = folder + "/token";
  std::error_code ignored;
  if (host.empty() || port.empty() || !std::filesystem::exists(token_file, ignored)) {
    return fail(ErrorCode::kNotFound, "not in a Kubernetes pod: no service account at " + folder +
                                          "; give a kubeconfig, or mount the account "
                                          "(automountServiceAccountToken: true)");
  }
  const bool v6 = host.find(':') != std::string::npos;
  auto url = net::parse_url("https://" + (v6 ? "[" + host + "]" : host) + ":" + port);
  if (!url) return fail(url.error().with_context("KUBERNETES_SERVICE_HOST and _PORT"));
  ApiAccess access;
  access.server = std::move(*url);
  access.token_file = token_file;
  access.ca_file = folder + "/ca.crt";
  if (const auto ns = core::read_regular_file(folder + "/namespace", kFileBytesMax)) {
    access.ns = core::trim(*ns);
  }
  return access;
}

net::TlsOptions tls_options(const ApiAccess& access) {
  net::TlsOptions options;
  options.ca_file = access.ca_file;
  options.ca_pem = access.ca_pem;
  options.client_certificate_file = access.client_certificate_file;
  options.client_certificate_pem = access.client_certificate_pem;
  options.client_key_file = access.client_key_file;
  options.client_key_pem = access.client_key_pem;
  options.insecure_skip_verify = access.insecure_skip_verify;
  return options;
}

Result<ApiAccess> kubeconfig_access(const std::string& path) {
  return Kubeconfig(path).read();
}

}  // namespace tailrace::kubernetes
