#include "net/support/tls_peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tailrace::net::test {
namespace {

X509* self_signed(EVP_PKEY* key) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* const names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate, key, EVP_sha256());
  return certificate;
}

}  // namespace

TlsPeer::TlsPeer(int connections, std::string answer, bool asks_who) : answer_(std::move(answer)) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = self_signed(key);
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  if (FILE* const file = std::fopen(certificate_path_.c_str(), "w")) {
    PEM_write_X509(file, certificate);
    std::fclose(file);
  }
  if (FILE* const file = std::fopen(key_path_.c_str(), "w")) {
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }
  if (asks_who) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  X509_free(certificate);
  EVP_PKEY_free(key);
  context_ = context;

  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener_, 8), 0);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, connections] { serve(connections); });
}

TlsPeer::~TlsPeer() {
  thread_.join();
  ::close(listener_);
  SSL_CTX_free(static_cast<SSL_CTX*>(context_));
}

void TlsPeer::serve(int connections) {
  for (int i = 0; i < connections; ++i) {
    pollfd waiting{listener_, POLLIN, 0};
    if (::poll(&waiting, 1, 10'000) != 1) return;
    const int fd = ::accept(listener_, nullptr, nullptr);
    SSL* const ssl = SSL_new(static_cast<SSL_CTX*>(context_));
    SSL_set_fd(ssl, fd);
    char buffer[4096];
    if (SSL_accept(ssl) == 1 && SSL_read(ssl, buffer, sizeof buffer) > 0) {
      SSL_write(ssl, answer_.data(), static_cast<int>(answer_.size()));
      SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    ::close(fd);
  }
}

}  // namespace tailrace::net::test
