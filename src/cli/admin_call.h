// How does a subcommand ask a running gateway?
//
// One call to the admin listener, waited for, with answers and failures in words for people.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::cli {

struct AdminQuestion {
  std::string admin;      ///< the listener's address, as --admin gave it
  std::string token_env;  ///< the environment variable that may hold the token
  std::string path;
  std::string body = {};                               ///< empty: a GET, else a POST
  std::string tenant = {};                             ///< x-tailrace-tenant; empty: none
  std::string wanted;                                  ///< a member that a good answer has
  std::string server = "gateway", listener = "admin";  ///< whose, for messages
};

struct AdminAnswer {
  std::string text;  ///< as it came
  boost::json::object document;
};

/// Errors: kInvalidArgument for the question's fault (a bad address, a refused body), kUnavailable
/// for what the other side did or did not do; the message stands alone.
Result<AdminAnswer> call_admin(const AdminQuestion& question);

/// 2 for bad usage or input, else 1.
int exit_code_of(const Error& error);

/// A member, or null where there is none.
const boost::json::value& at(const boost::json::object& object, std::string_view name);
/// The value as an object, an empty one where it is none: the other side may be anybody.
const boost::json::object& object_of(const boost::json::value& value);
/// The value as a number, or nothing.
std::optional<double> number_of(const boost::json::value& value);
/// A value for a terminal: what would steer it written out, numbers to four digits, "-" for null.
std::string text(const boost::json::value& value);

}  // namespace tailrace::cli
