// Requests that two parsers could read differently: each must be refused, and end the connection.
#include <gmock/gmock.h>

#include "net/support/server_fixture.h"

namespace tailrace::net::test {
namespace {

using testing::StartsWith;

using HttpSmugglingTest = ServerTest;

TEST_F(HttpSmugglingTest, RefusesToMixUpRequests) {
  serve_echo();
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  const std::pair<const char*, std::string> corpus[] = {
      {"CL.TE", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"TE.CL", post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"},
      {"differing lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
      {"differing lengths in one field", post + "Content-Length: 1, 2\r\n\r\nab"},
      {"signed length", post + "Content-Length: +1\r\n\r\na"},
      {"negative length", post + "Content-Length: -1\r\n\r\na"},
      {"hexadecimal length", post + "Content-Length: 0x1\r\n\r\na"},
      {"overflowing length", post + "Content-Length: 18446744073709551616\r\n\r\na"},
      {"empty length", post + "Content-Length: \r\n\r\n"},
      {"chunkedx", post + "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"},
      {"xchunked", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
      {"quoted chunked", post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"},
      {"chunked twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
      {"chunked not last", post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"},
      {"gzip, chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {"two codings",
       post + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"chunked with vertical tab", post + "Transfer-Encoding: \x0b"
                                           "chunked\r\n\r\n0\r\n\r\n"},
      {"chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"folded line", post + "X: a\r\n b\r\n\r\n"},
      {"folded first line", "GET / HTTP/1.1\r\n Host: x\r\n\r\n"},
      {"bare LF ends a line", "GET / HTTP/1.1\nHost: x\r\n\r\n"},
      {"bare LF ends the head", "GET / HTTP/1.1\r\nHost: x\r\n\n"},
      {"bare LF in a value", post + "X: a\nTransfer-Encoding: chunked\r\n\r\n"},
      {"bare CR in a value", post + "X: a\rTransfer-Encoding: chunked\r\n\r\n"},
      {"bare CR ends a line", "GET / HTTP/1.1\rHost: x\r\n\r\n"},
      {"NUL in a value", post + std::string("X: a\0b\r\n\r\n", 10)},
      {"blank before the colon", post + "Content-Length : 4\r\n\r\nabcd"},
      {"tab before the colon", post + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"},
      {"empty name", post + ": a\r\n\r\n"},
      {"name with brackets", post + "X(a): b\r\n\r\n"},
      {"name with high bytes", post + "X\xc3\xa9: b\r\n\r\n"},
      {"no colon", post + "nonsense\r\n\r\n"},
      {"control character in a value", post + "X: a\x01\r\n\r\n"},
      {"two hosts", post + "Host: y\r\n\r\n"},
      {"no host", "GET / HTTP/1.1\r\n\r\n"},
      {"blank in the target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"two blanks", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"leading blank", " GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"HTTP/0.9", "GET /\r\n\r\n"},
      {"TLS handshake", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15)},
  };
  for (const auto& [name, request] : corpus) {
    RawPeer peer;
    peer.connect(loop, network);
    peer.send(request + "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
    run();
    EXPECT_THAT(peer.received, StartsWith("HTTP/1.1 400 ")) << name;
    EXPECT_TRUE(peer.ended) << name << ": the connection must not go on";
    EXPECT_EQ(requests, 0) << name;
  }
  EXPECT_THAT(answer_to("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  EXPECT_EQ(requests, 0);
}

TEST_F(HttpSmugglingTest, BadChunksEndTheBodyAndTheConnection) {
  for (const std::string_view chunks :
       {"-1\r\n", "+1\r\na\r\n", "0x1\r\na\r\n", " 1\r\na\r\n", "1 \r\na\r\n", "1\na\r\n",
        "1\r\nab\r\n", "1\r\na\n", "11111111111111111\r\n", "g\r\n", "\r\n", "1;\n\r\na\r\n",
        "0\r\nX: a\nb\r\n\r\n"}) {
    serve_echo();
    RawPeer peer;
    peer.connect(loop, network);
    peer.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
              std::string(chunks));
    run();
    EXPECT_THAT(peer.received, StartsWith("HTTP/1.1 400 ")) << chunks;
    EXPECT_TRUE(peer.ended) << chunks;
    server.reset();
  }
}

}  // namespace
}  // namespace tailrace::net::test
