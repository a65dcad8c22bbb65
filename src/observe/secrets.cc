#include "observe/secrets.h"

#include <cstdlib>

#include "tailrace/core/environment.h"
#include "tailrace/core/text.h"

namespace tailrace::observe {
namespace {

constexpr std::size_t kTokenBytesMax = 64 * 1024;
/// Anything shorter hides nothing, and would blot out words that only look alike.
constexpr std::size_t kSecretBytesMin = 6;

tl::unexpected<Error> no_token(const std::string& message) {
  return fail(ErrorCode::kInvalidArgument, message);
}

}  // namespace

Result<std::string> read_bearer_token(const PrometheusConfig& config) {
  std::string token;
  std::string where;
  if (!config.bearer_token_file.empty()) {
    where = "bearer_token_file " + core::quoted(config.bearer_token_file, 256);
    auto text = core::read_regular_file(config.bearer_token_file, kTokenBytesMax);
    if (!text) return no_token(where + ": " + text.error().message);
    token = core::trim(*text);
  } else if (!config.bearer_token_env.empty()) {
    where = "bearer_token_env " + core::quoted(config.bearer_token_env, 256);
    const char* const text = std::getenv(config.bearer_token_env.c_str());
    if (text == nullptr) return no_token(where + ": there is no such environment variable");
    token = core::trim(text);
  } else {
    return token;
  }
  if (token.empty()) return no_token(where + " is empty");
  if (!core::can_be_token(token))
    return no_token(where + " holds blanks or control characters: it is no token");
  return token;
}

std::string without_secrets(std::string text, const std::vector<std::string>& secrets) {
  constexpr std::string_view kInstead = "[secret]";
  for (const std::string& secret : secrets) {
    if (secret.size() < kSecretBytesMin) continue;
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos;
         at += kInstead.size()) {
      text.replace(at, secret.size(), kInstead);
    }
  }
  return text;
}

}  // namespace tailrace::observe
