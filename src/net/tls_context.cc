#include "net/tls_context.h"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include "tailrace/core/log.h"

namespace tailrace::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// Changes when a file does: a mounted Secret or ConfigMap is replaced as a whole.
std::string stamp_of(const std::string& path) {
  struct stat status{};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return "-";
  return std::to_string(status.st_ino) + " " + std::to_string(status.st_size) + " " +
         std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
}

std::string stamps_of(const TlsOptions& options) {
  return stamp_of(options.ca_file) + "/" + stamp_of(options.client_certificate_file) + "/" +
         stamp_of(options.client_key_file);
}

tl::unexpected<Error> unusable(std::string_view field, const std::string& path,
                               const error_code& why) {
  return fail(ErrorCode::kInvalidArgument,
              std::string(field) + ": cannot use \"" + path + "\" as PEM: " + why.message());
}

Result<void> load_client_certificate(asio::ssl::context& ssl, const TlsOptions& options) {
  if (options.client_certificate_file.empty() != options.client_key_file.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "client_certificate_file and client_key_file belong together: give both or none");
  }
  if (options.client_key_file.empty()) return {};
  error_code ec;
  if (ssl.use_certificate_chain_file(options.client_certificate_file, ec)) {
    return unusable("client_certificate_file", options.client_certificate_file, ec);
  }
  // The key is checked against the certificate here: another one is refused.
  if (ssl.use_private_key_file(options.client_key_file, asio::ssl::context::pem, ec)) {
    return unusable("client_key_file", options.client_key_file, ec);
  }
  return {};
}

Result<void> load(asio::ssl::context& ssl, const TlsOptions& options) {
  error_code ec;
  if (options.ca_file.empty()) {
    if (ssl.set_default_verify_paths(ec)) {
      return fail(ErrorCode::kInternal, "cannot load the trust store: " + ec.message());
    }
  } else if (ssl.load_verify_file(options.ca_file, ec)) {
    return unusable("ca_file", options.ca_file, ec);
  }
  SSL_CTX_set_min_proto_version(ssl.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_verify(ssl.native_handle(),
                     options.insecure_skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  return load_client_certificate(ssl, options);
}

}  // namespace

TlsSettings::TlsSettings(TlsOptions options) : options_(std::move(options)) {}
TlsSettings::~TlsSettings() = default;

Result<std::shared_ptr<TlsSettings::Context>> TlsSettings::context() {
  const std::string stamps = stamps_of(options_);
  if (context_ && stamps == stamps_) return context_;
  auto made = std::make_shared<Context>();
  if (const auto loaded = load(made->ssl, options_); !loaded) {
    if (!context_) return fail(loaded.error());
    log::warn("tls_files_not_reloaded", {{"error", loaded.error().message}});
    return context_;
  }
  context_ = std::move(made);
  stamps_ = stamps;
  return context_;
}

Result<void> check_tls_options(const TlsOptions& options) {
  TlsSettings::Context context;
  return load(context.ssl, options);
}

}  // namespace tailrace::net
