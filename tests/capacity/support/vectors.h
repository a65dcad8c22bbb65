// The reference vectors, where the checkout has them beside it.
#pragma once

#include <boost/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tailrace::testing {

struct Vector {
  std::string id, group;
  boost::json::object inputs, expected;

  double in(const char* key) const;
  double out(const char* key) const;
};

/// Rows whose identifier begins with `prefix`; none where the file is absent (TAILRACE_SHARED, or
/// ../shared beside the source).
std::vector<Vector> queueing_vectors(const std::string& prefix);
/// The same by group: those whose name contains one of `parts`.
std::vector<Vector> queueing_vectors_of(const std::set<std::string>& parts);
std::string shared_path(const std::string& below);

double number(const boost::json::value& value);

}  // namespace tailrace::testing
