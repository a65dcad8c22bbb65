// What OpenSSL needs to know before it speaks with anyone. Private to src/net.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include "net/connector.h"

namespace tailrace::net {

struct TlsSettings::Context {
  boost::asio::ssl::context ssl{boost::asio::ssl::context::tls_client};
};

}  // namespace tailrace::net
