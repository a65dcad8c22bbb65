// How does a connected socket become a Stream? Private to src/net; the types keep Asio's executor
// concrete, which spares an allocation and a virtual call per operation.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "tailrace/net/stream.h"

namespace tailrace::net {

using TcpSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
using TcpAcceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp,
                                                       boost::asio::io_context::executor_type>;
using TcpResolver =
    boost::asio::ip::basic_resolver<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

/// Nagle's algorithm off, keep-alive probes on (a vanished peer is noticed within two minutes),
/// calls never block.
void prepare_socket(TcpSocket& socket);

std::unique_ptr<Stream> make_tcp_stream(TcpSocket socket);

/// The error that a failed socket call stands for; `what` says what was tried.
Error socket_error(const boost::system::error_code& ec, std::string_view what);

std::string peer_name(const TcpSocket& socket);

}  // namespace tailrace::net
