#include "tailrace/net/http.h"

#include <gmock/gmock.h>

#include "net/body_decoder.h"
#include "net/chunked.h"
#include "net/head_parser.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {
namespace {

using testing::HasSubstr;

TEST(Headers, CompareNamesWithoutCaseAndKeepTheirOrderAndSpelling) {
  Headers headers{{"X-A", "1"}, {"x-b", "2"}, {"X-a", "3"}};
  EXPECT_EQ(headers.find("x-a"), "1");
  EXPECT_EQ(headers.count("X-A"), 2U);
  headers.set("x-A", "4");
  EXPECT_EQ(headers.count("x-a"), 1U);
  EXPECT_EQ(headers.begin()->name, "X-A");
  EXPECT_EQ(headers.begin()->value, "4");
  headers.remove("X-B");
  EXPECT_FALSE(headers.find("x-b"));
  headers.set("New", "5");
  EXPECT_EQ(headers.size(), 2U);
}

TEST(Headers, FindATokenInCommaSeparatedLists) {
  const Headers headers{{"Connection", "keep-alive , Close"}, {"connection", "x"}};
  EXPECT_TRUE(headers.has_token("connection", "close"));
  EXPECT_TRUE(headers.has_token("connection", "X"));
  EXPECT_FALSE(headers.has_token("connection", "clos"));
  EXPECT_FALSE(headers.has_token("upgrade", "x"));
}

TEST(Headers, DropWhatBelongsToOneConnection) {
  Headers headers{{"Host", "h"},
                  {"Connection", "close, X-Hop"},
                  {"X-Hop", "1"},
                  {"Keep-Alive", "5"},
                  {"TE", "trailers"},
                  {"Transfer-Encoding", "chunked"},
                  {"Content-Length", "3"},
                  {"Upgrade", "h2c"},
                  {"Proxy-Authorization", "secret"},
                  {"Content-Type", "t"}};
  headers.remove_hop_by_hop();
  std::vector<std::string> names;
  for (const Header& header : headers) names.push_back(header.name);
  EXPECT_THAT(names, testing::ElementsAre("Host", "Content-Type"));
}

TEST(Framing, FollowsTheOrderOfRfc9112) {
  using Kind = BodyFraming::Kind;
  const auto answer = [](int status, Headers headers, std::string_view method = "GET") {
    return response_framing({status, "", std::move(headers)}, method).value();
  };
  EXPECT_EQ(answer(200, {{"Content-Length", "5"}}), (BodyFraming{Kind::kLength, 5}));
  EXPECT_EQ(answer(200, {{"Content-Length", "5, 5"}}), (BodyFraming{Kind::kLength, 5}));
  EXPECT_EQ(answer(200, {{"Content-Length", "5"}}, "HEAD").kind, Kind::kNone);
  EXPECT_EQ(answer(204, {{"Content-Length", "5"}}).kind, Kind::kNone);
  EXPECT_EQ(answer(304, {{"Transfer-Encoding", "chunked"}}).kind, Kind::kNone);
  EXPECT_EQ(answer(200, {{"Transfer-Encoding", "Chunked"}}).kind, Kind::kChunked);
  EXPECT_EQ(answer(200, {}).kind, Kind::kUntilClose);
  EXPECT_EQ(answer(200, {{"Content-Length", "0"}}).kind, Kind::kNone);
  EXPECT_EQ(request_framing({"POST", "/", 1, {}}).value().kind, Kind::kNone);
  const auto bad = request_framing({"POST", "/", 1, {{"Content-Length", "1x"}}});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(bad.error().message, HasSubstr("\"1x\""));
}

TEST(ChunkedDecoder, DecodesInPlaceAndSaysWhereTheBodyEnds) {
  std::string bytes = "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\nGET /";
  ChunkedDecoder decoder;
  const auto progress = decoder.decode(bytes);
  ASSERT_TRUE(progress);
  EXPECT_TRUE(progress->done);
  EXPECT_EQ(bytes.substr(0, progress->content), "abcde");
  EXPECT_EQ(bytes.substr(progress->consumed), "GET /");
}

TEST(ChunkedDecoder, BoundsWhatItSkips) {
  ChunkedDecoder extensions;
  std::string line = "1;" + std::string(20'000, 'e');
  EXPECT_FALSE(extensions.decode(line));
  ChunkedDecoder trailers;
  std::string many = "0\r\n";
  for (int i = 0; i < 2000; ++i) many += "Trailer: x\r\n";
  EXPECT_FALSE(trailers.decode(many));
}

TEST(ChunkedDecoder, TakesTheLargestSizeAndNotOneDigitMore) {
  ChunkedDecoder large;
  std::string sixteen = "ffffffffffffffff\r\nx";
  const auto progress = large.decode(sixteen);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->content, 1U);
  ChunkedDecoder larger;
  std::string seventeen = "0ffffffffffffffff\r\nx";
  EXPECT_FALSE(larger.decode(seventeen));
}

TEST(ChunkHead, IsTheSizeInHexadecimal) {
  std::array<char, 20> buffer;
  EXPECT_EQ(chunk_head(1, buffer), "1\r\n");
  EXPECT_EQ(chunk_head(255, buffer), "ff\r\n");
  EXPECT_EQ(chunk_head(~std::size_t{0}, buffer), "ffffffffffffffff\r\n");
}

TEST(HeadParser, KeepsSpellingAndOrder) {
  const auto head = parse_request_head("GET /a?b=c HTTP/1.0\r\nX-One:  1 \r\nx-two:\t\r\n\r\n");
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->method, "GET");
  EXPECT_EQ(head->target, "/a?b=c");
  EXPECT_EQ(head->path(), "/a");
  EXPECT_EQ(head->minor_version, 0);
  EXPECT_EQ(head->headers.find("X-One"), "1");
  EXPECT_EQ(head->headers.find("X-Two"), "");
  EXPECT_EQ(head->headers.begin()->name, "X-One");
}

TEST(HeadParser, ReadsEveryUsualMethodAndAnswersWithoutAReason) {
  for (const std::string method : {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X-OWN"}) {
    const auto head = parse_request_head(method + " / HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(head) << method;
    EXPECT_EQ(head->method, method);
  }
  const auto answer = parse_response_head("HTTP/1.1 200 \r\nA: b\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->head.status, 200);
  EXPECT_EQ(answer->head.reason, "");
}

TEST(HeadScanner, ReadsEachByteOnceAndFindsTheEnd) {
  const std::string head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  HeadScanner scanner(1000, 10);
  for (std::size_t n = 1; n < head.size(); ++n) {
    EXPECT_EQ(scanner.scan(std::string_view(head).substr(0, n)).value(), 0U);
  }
  EXPECT_EQ(scanner.scan(head + "body").value(), head.size());
}

TEST(ReasonPhrase, KnowsTheUsualCodes) {
  EXPECT_EQ(reason_phrase(404), "Not Found");
  EXPECT_EQ(reason_phrase(299), "");
}

TEST(Endpoint, IsParsedAndPrinted) {
  EXPECT_EQ(parse_host_port("127.0.0.1:80").value(), (Endpoint{"127.0.0.1", 80, false}));
  EXPECT_EQ(parse_host_port(":80").value(), (Endpoint{"", 80, false}));
  EXPECT_EQ(parse_host_port("[::1]:80").value(), (Endpoint{"::1", 80, false}));
  EXPECT_EQ(to_string(Endpoint{"::1", 80, false}), "[::1]:80");
  EXPECT_EQ(to_string(Endpoint{"h", 80, true}), "h:80");
  for (const char* bad : {"", "h", "h:", "h:x", "h:-1", "h:65536", "::1:80", "[::1]", "[::1:80",
                          "[]:1", "h:80 ", " h:80", "a b:80", "[::1]x:80"}) {
    const auto parsed = parse_host_port(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Url, IsParsed) {
  const auto parsed = parse_url("https://host/prefix/v1/");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->endpoint, (Endpoint{"host", 443, true}));
  EXPECT_EQ(parsed->prefix, "/prefix/v1");
  EXPECT_EQ(parse_url("http://h:81").value().endpoint.port, 81);
  EXPECT_EQ(parse_url("http://h/").value().prefix, "");
  EXPECT_EQ(parse_url("http://[::1]/x").value().endpoint.host, "::1");
  for (const char* bad :
       {"", "h:80", "ftp://h", "http://", "http:///x", "http://h:0", "http://h:99999", "http://u@h",
        "http://h/a b", "http://h/?q", "http://h/#f", "HTTP//h"}) {
    const auto url = parse_url(bad);
    ASSERT_FALSE(url) << bad;
    EXPECT_THAT(url.error().message, HasSubstr("http://127.0.0.1:8000")) << "the remedy";
  }
}

}  // namespace
}  // namespace tailrace::net
