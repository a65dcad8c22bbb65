// How does any text become a part of a URL?
#pragma once

#include <string>
#include <string_view>

namespace tailrace::net {

/// Everything but RFC 3986's unreserved characters in percent codes: "a/b" → "a%2Fb".
std::string percent_encoded(std::string_view text);

}  // namespace tailrace::net
