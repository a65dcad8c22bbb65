// A TLS server for tests: one thread, one connection after another, a certificate made on the spot.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "support/temp_folder.h"

namespace tailrace::net::test {

class TlsPeer {
 public:
  /// Serves `connections` connections, each with one answer to whatever is sent, under a
  /// self-signed certificate for "localhost". The certificate is in the file certificate_path().
  /// With `asks_who` a client must show that very certificate itself.
  explicit TlsPeer(int connections, std::string answer, bool asks_who = false);
  ~TlsPeer();
  std::uint16_t port() const { return port_; }
  const std::string& certificate_path() const { return certificate_path_; }
  const std::string& key_path() const { return key_path_; }

 private:
  void serve(int connections);

  std::string answer_;
  TempFolder folder_;
  std::string certificate_path_ = folder_.file("certificate.pem");
  std::string key_path_ = folder_.file("key.pem");
  std::uint16_t port_ = 0;
  int listener_ = -1;
  void* context_ = nullptr;  ///< SSL_CTX
  std::thread thread_;
};

}  // namespace tailrace::net::test
