// What did a replica print, and how much of that is kept?
#pragma once

#include <cstddef>
#include <string>

namespace tailrace::autoscaler {

/// Above `bytes_max`, moves the newer half to "<path>.1" and starts the file anew. Whoever appends
/// to it keeps doing so. Lines written meanwhile may be lost. Nothing happens where there is no
/// file.
void trim_log(const std::string& path, std::size_t bytes_max);

/// The last line that is not blank, safe to print, at most `bytes_max` long; "": none.
std::string last_line(const std::string& path, std::size_t bytes_max = 200);

}  // namespace tailrace::autoscaler
