// Reference numbers: the shared vectors where they are, and golden/kalman.json, our own, always.
#pragma once

#include <simdjson.h>

#include <functional>
#include <string_view>

namespace tailrace::tune::testing {

/// Calls `use` with each vector of the group: `inputs`, `expected`, `id`. False where the shared
/// folder is absent.
bool for_each_shared_vector(
    std::string_view group,
    const std::function<void(std::string_view id, simdjson::dom::element inputs,
                             simdjson::dom::element expected)>& use);
/// The same of golden/kalman.json, made by golden/generate_kalman.py.
void for_each_golden_vector(
    std::string_view group,
    const std::function<void(std::string_view id, simdjson::dom::element inputs,
                             simdjson::dom::element expected)>& use);

}  // namespace tailrace::tune::testing
