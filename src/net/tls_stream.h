// How is a connected socket turned into a TLS client stream? Private to src/net.
#pragma once

#include <memory>

#include "net/connector.h"
#include "net/tcp_stream.h"

namespace tailrace::net {

/// Shakes hands as a client: server name indication and, if `verify`, certificate chain against the
/// trusted authorities and host name verification. Destroying the result abandons the attempt and
/// closes the socket.
std::unique_ptr<Connecting> start_tls(TcpSocket socket, TlsSettings::Context& context,
                                      const std::string& host, bool verify,
                                      UniqueFunction<void(Result<std::unique_ptr<Stream>>)> done);

}  // namespace tailrace::net
