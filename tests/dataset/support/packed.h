// What do packed recordings look like, made by the libraries' own packers?
#pragma once

#include <string>
#include <string_view>

namespace tailrace::dataset::test {

enum class Packing { kGzip, kZstd, kXz, kBzip2 };
inline constexpr Packing kPackings[] = {Packing::kGzip, Packing::kZstd, Packing::kXz,
                                        Packing::kBzip2};

std::string pack(Packing packing, std::string_view text);

}  // namespace tailrace::dataset::test
