// Which bytes are inside a file, once it is unpacked?
//
// A ByteStream hides where bytes come from (a descriptor or memory) and how they are packed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::dataset {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Up to `size` unpacked bytes; 0 at the end. Errors: kDataLoss, kInternal, without the name.
  virtual Result<std::size_t> read(char* into, std::size_t size) = 0;
  /// "gzip", "zstd", "xz", "bzip2" or "" for plain bytes.
  virtual std::string_view packing() const = 0;
};

/// Owns `fd` and closes it, but for standard input (0).
Result<std::unique_ptr<ByteStream>> unpack_descriptor(int fd);
Result<std::unique_ptr<ByteStream>> unpack_bytes(std::string bytes);

}  // namespace tailrace::dataset
