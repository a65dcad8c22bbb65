#include "net/tls_context.h"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include <boost/asio/buffer.hpp>
#include <filesystem>

#include "tailrace/core/log.h"
#include "tailrace/core/text.h"

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

/// One piece of PEM, wherever it is kept.
struct Pem {
  std::string_view field;
  const std::string& file;
  const std::string& text;

  bool given() const { return !file.empty() || !text.empty(); }
  asio::const_buffer buffer() const { return {text.data(), text.size()}; }
  /// OpenSSL opens a file by its name, and would wait for a pipe's writer for ever.
  Result<void> check() const {
    std::error_code unknown;
    if (file.empty() || !text.empty() || !std::filesystem::exists(file, unknown) ||
        std::filesystem::is_regular_file(file, unknown)) {
      return {};
    }
    return fail(
        ErrorCode::kInvalidArgument,
        std::string(field) + "_file: " + core::quoted(file, 256) + " is no regular file; name one");
  }
  tl::unexpected<Error> unusable(const error_code& why) const {
    // A text is not shown: it may be a key.
    const std::string what =
        text.empty() ? "_file: cannot use \"" + file + "\"" : "_pem: cannot be used";
    return fail(ErrorCode::kInvalidArgument,
                std::string(field) + what + " as PEM: " + why.message());
  }
};

Result<void> load_authorities(asio::ssl::context& ssl, const Pem& ca) {
  error_code ec;
  if (!ca.given()) {
    if (ssl.set_default_verify_paths(ec)) {
      return fail(ErrorCode::kInternal, "cannot load the trust store: " + ec.message());
    }
    return {};
  }
  if (ca.text.empty() ? ssl.load_verify_file(ca.file, ec)
                      : ssl.add_certificate_authority(ca.buffer(), ec)) {
    return ca.unusable(ec);
  }
  return {};
}

Result<void> load_client_certificate(asio::ssl::context& ssl, const Pem& certificate,
                                     const Pem& key) {
  if (certificate.given() != key.given()) {
    return fail(ErrorCode::kInvalidArgument,
                "client_certificate_file and client_key_file belong together: give both or none");
  }
  if (!key.given()) return {};
  error_code ec;
  if (certificate.text.empty() ? ssl.use_certificate_chain_file(certificate.file, ec)
                               : ssl.use_certificate_chain(certificate.buffer(), ec)) {
    return certificate.unusable(ec);
  }
  // The key is checked against the certificate here: another one is refused.
  if (key.text.empty() ? ssl.use_private_key_file(key.file, asio::ssl::context::pem, ec)
                       : ssl.use_private_key(key.buffer(), asio::ssl::context::pem, ec)) {
    return key.unusable(ec);
  }
  return {};
}

Result<void> load(asio::ssl::context& ssl, const TlsOptions& options) {
  const Pem ca{"ca", options.ca_file, options.ca_pem};
  const Pem certificate{"client_certificate", options.client_certificate_file,
                        options.client_certificate_pem};
  const Pem key{"client_key", options.client_key_file, options.client_key_pem};
  for (const Pem* const pem : {&ca, &certificate, &key}) {
    if (auto checked = pem->check(); !checked) return checked;
  }
  if (auto authorities = load_authorities(ssl, ca); !authorities) return authorities;
  SSL_CTX_set_min_proto_version(ssl.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_verify(ssl.native_handle(),
                     options.insecure_skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  return load_client_certificate(ssl, certificate, key);
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
