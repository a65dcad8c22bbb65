#include "net/head_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <cstring>

#include "tailrace/core/text.h"

namespace tailrace::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

bool is_token_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7f &&
         std::string_view("()<>@,;:\\\"/[]?={}").find(c) == std::string_view::npos;
}

bool is_token(std::string_view text) {
  for (const char c : text) {
    if (!is_token_char(c)) return false;
  }
  return !text.empty();
}

const char* line_error(std::string_view line, bool first) {
  if (line.find('\r') != std::string_view::npos) return "a carriage return stands inside a line";
  if (line.find('\0') != std::string_view::npos) return "a NUL byte stands in the head";
  if (first) return line.empty() ? "the start line is empty" : nullptr;
  if (line.empty()) return nullptr;
  if (line.front() == ' ' || line.front() == '\t') return "a header line is folded";
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return "a header line has no colon";
  if (!is_token(line.substr(0, colon))) return "a header name holds a forbidden character";
  return nullptr;
}

/// Beast's parser, used for heads alone: it is fed one complete head and keeps what it sees.
template <bool kRequest>
class HeadParser final : public http::basic_parser<kRequest> {
 public:
  explicit HeadParser(std::size_t head_bytes) {
    this->header_limit(static_cast<std::uint32_t>(head_bytes + 1));
    this->body_limit(boost::none);
    this->skip(true);
  }
  RequestHead request;
  ResponseHead response;
  int version = 11;

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int http_version,
                       error_code&) override {
    request.method = std::string(method);
    request.target = std::string(target);
    version = http_version;
  }
  void on_response_impl(int code, string_view reason, int http_version, error_code&) override {
    response.status = code;
    response.reason = std::string(reason);
    version = http_version;
  }
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    (kRequest ? request.headers : response.headers).add(std::string(name), std::string(value));
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
  std::size_t on_body_impl(string_view, error_code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view, error_code&) override { return 0; }
  void on_finish_impl(error_code&) override {}
};

/// "METHOD target HTTP/2.0": well-formed, but of another version than ours.
bool names_other_version(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\r'));
  return std::count(line.begin(), line.end(), ' ') == 2 &&
         line.substr(line.rfind(' ') + 1).starts_with("HTTP/");
}

/// Runs the parser over a whole head. Errors as parse_request_head.
template <bool kRequest>
Result<void> run(HeadParser<kRequest>& parser, std::string_view head) {
  error_code ec;
  parser.put(boost::asio::buffer(head.data(), head.size()), ec);
  if (ec == http::error::bad_version && names_other_version(head)) {
    return fail(ErrorCode::kUnsupported, "only HTTP/1.0 and HTTP/1.1 are spoken here");
  }
  if (ec) return fail(ErrorCode::kInvalidArgument, "malformed head: " + ec.message());
  if (!parser.is_header_done()) return fail(ErrorCode::kInvalidArgument, "malformed head");
  return {};
}

void append_headers(std::string& out, const Headers& headers) {
  for (const Header& header : headers) {
    if (!is_token(header.name)) continue;
    out += header.name;
    out += ": ";
    const std::size_t begin = out.size();
    out += header.value;
    for (std::size_t i = begin; i < out.size(); ++i) {
      const auto byte = static_cast<unsigned char>(out[i]);
      if ((byte < 0x20 && out[i] != '\t') || byte == 0x7f) out[i] = ' ';
    }
    out += "\r\n";
  }
  out += "\r\n";
}

}  // namespace

Result<std::size_t> HeadScanner::scan(std::string_view buffer) {
  while (scanned_ < buffer.size()) {
    const void* const found = std::memchr(buffer.data() + scanned_, '\n', buffer.size() - scanned_);
    if (found == nullptr) {
      scanned_ = buffer.size();
      break;
    }
    const std::size_t end =
        static_cast<std::size_t>(static_cast<const char*>(found) - buffer.data());
    scanned_ = end + 1;
    if (scanned_ > bytes_max_) break;
    if (end == line_start_ || buffer[end - 1] != '\r') {
      return fail(ErrorCode::kInvalidArgument, "malformed head: a line does not end with CR LF");
    }
    const std::string_view line = buffer.substr(line_start_, end - 1 - line_start_);
    if (const char* error = line_error(line, lines_ == 0)) {
      return fail(ErrorCode::kInvalidArgument, std::string("malformed head: ") + error);
    }
    if (line.empty()) return scanned_;
    if (++lines_ > headers_max_ + 1) {
      return fail(ErrorCode::kResourceExhausted,
                  "the head has more than " + std::to_string(headers_max_) + " header lines");
    }
    line_start_ = scanned_;
  }
  if (scanned_ > bytes_max_) {
    return fail(ErrorCode::kResourceExhausted,
                "the head is longer than " + std::to_string(bytes_max_) + " bytes");
  }
  return std::size_t{0};
}

void HeadScanner::reset() {
  line_start_ = scanned_ = lines_ = 0;
}

Result<RequestHead> parse_request_head(std::string_view head) {
  HeadParser<true> parser(head.size());
  if (const Result<void> parsed = run(parser, head); !parsed) return fail(parsed.error());
  parser.request.minor_version = parser.version == 10 ? 0 : 1;
  return std::move(parser.request);
}

Result<ParsedResponse> parse_response_head(std::string_view head) {
  HeadParser<false> parser(head.size());
  if (const Result<void> parsed = run(parser, head); !parsed) return fail(parsed.error());
  if (parser.response.status < 100) {
    return fail(ErrorCode::kInvalidArgument, "malformed head: the status code is below 100");
  }
  return ParsedResponse{std::move(parser.response), parser.version == 10 ? 0 : 1};
}

std::string serialize(const RequestHead& head) {
  std::string out;
  out.reserve(256);
  out += head.method;
  out += ' ';
  out += head.target;
  out += head.minor_version == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n";
  append_headers(out, head.headers);
  return out;
}

std::string serialize(const ResponseHead& head) {
  std::string out;
  out.reserve(256);
  out += "HTTP/1.1 ";
  out += std::to_string(head.status);
  out += ' ';
  const std::size_t begin = out.size();
  out += head.reason.empty() ? std::string(reason_phrase(head.status)) : head.reason;
  for (std::size_t i = begin; i < out.size(); ++i) {
    if (static_cast<unsigned char>(out[i]) < 0x20) out[i] = ' ';
  }
  out += "\r\n";
  append_headers(out, head.headers);
  return out;
}

}  // namespace tailrace::net
