// The splice that asks for usage touches nothing else, whatever the request looks like.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "gateway/request_reader.h"

namespace tailrace::gateway {
namespace {

namespace bj = boost::json;

bj::value any_value(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::arbitrary<std::int64_t>();
    case 3:
      return bj::string(*rc::gen::container<std::string>(
          rc::gen::element('"', '\\', '{', '}', '[', ']', ',', ':', ' ', 'a', '\n', '\x1f')));
    case 4:
      return 0.5;
    case 5: {
      bj::array array;
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) array.push_back(any_value(depth - 1));
      return array;
    }
    default: {
      bj::object object;
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
        object[*rc::gen::element<std::string>("a", "stream_options", "include_usage", "\"", "x\\",
                                              "")] = any_value(depth - 1);
      }
      return object;
    }
  }
}

std::string any_space() {
  return *rc::gen::element<std::string>("", "", " ", "\n", "\t \r\n");
}

/// A member list as text, with white space wherever JSON allows it.
std::string object_text(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string text = any_space() + "{" + any_space();
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i > 0) text += "," + any_space();
    text += bj::serialize(bj::string(members[i].first)) + any_space() + ":" + any_space() +
            members[i].second + any_space();
  }
  return text + "}" + any_space();
}

RC_GTEST_PROP(WithUsageRequestProperty, AsksForUsageAndKeepsEveryOtherMember, ()) {
  std::vector<std::pair<std::string, std::string>> members{{"stream", "true"}};
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) {
    members.emplace_back(*rc::gen::element<std::string>("model", "a\"b", "x", "stream_option", "y"),
                         bj::serialize(any_value(3)));
  }
  if (*rc::gen::arbitrary<bool>()) {
    const auto options = *rc::gen::element<std::string>(
        "null", "{}", "{ }", R"({"include_usage":false})", R"({"include_usage" : null , "z":[1]})",
        R"({"continuous_usage_stats":true,"q":{"include_usage":false}})");
    const auto at = *rc::gen::inRange<std::size_t>(0, members.size() + 1);
    members.insert(members.begin() + static_cast<std::ptrdiff_t>(at), {"stream_options", options});
  }
  const std::string body = object_text(members);
  const std::string edited = with_usage_request(body);

  bj::object before = bj::parse(body).as_object();
  bj::object after = bj::parse(edited).as_object();
  bj::object options = after.at("stream_options").as_object();
  RC_ASSERT(options.at("include_usage") == true);
  // Apart from that option the documents are the same …
  options.erase("include_usage");
  if (const auto* had = before.if_contains("stream_options"); had != nullptr && had->is_object()) {
    bj::object rest = had->as_object();
    rest.erase("include_usage");
    RC_ASSERT(rest == options);
  } else {
    RC_ASSERT(options.empty());
  }
  before.erase("stream_options");
  after.erase("stream_options");
  RC_ASSERT(before == after);
  // … and so are the bytes: what was inserted is one piece, what was replaced one literal.
  std::size_t head = 0;
  while (head < body.size() && head < edited.size() && body[head] == edited[head]) ++head;
  std::size_t tail = 0;
  while (tail < body.size() - head && tail < edited.size() - head &&
         body[body.size() - 1 - tail] == edited[edited.size() - 1 - tail]) {
    ++tail;
  }
  const std::string lost = body.substr(head, body.size() - head - tail);
  RC_ASSERT(std::string("false null").find(lost) != std::string::npos);
  RC_ASSERT(edited.size() <= body.size() + 43);
}

RC_GTEST_PROP(RequestReaderProperty, AnyBytesAreReadOrRefused, (const std::string& bytes)) {
  for (const Route route : {Route::kChat, Route::kCompletions, Route::kResponses}) {
    const auto request = read_request(route, bytes);
    if (request) {
      RC_ASSERT(request->slots >= 1);
    } else {
      RC_ASSERT(request.error().code == ErrorCode::kInvalidArgument);
    }
  }
  (void)with_usage_request(bytes);
}

}  // namespace
}  // namespace tailrace::gateway
