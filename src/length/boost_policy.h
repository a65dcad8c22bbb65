// How may Boost.Math compute for us: in plain doubles, and without ever throwing.
//
// Default promotion computes in long double: eight times slower, and other digits on other
// machines. An error becomes the nearest value (zero, infinity) and the caller's affair.
#pragma once

#include <boost/math/policies/policy.hpp>

namespace tailrace::length {

namespace policies = boost::math::policies;

using QuietPolicy =
    policies::policy<policies::promote_double<false>, policies::promote_float<false>,
                     policies::domain_error<policies::ignore_error>,
                     policies::pole_error<policies::ignore_error>,
                     policies::overflow_error<policies::ignore_error>,
                     policies::underflow_error<policies::ignore_error>,
                     policies::rounding_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>>;

}  // namespace tailrace::length
