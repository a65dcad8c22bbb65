#include "dataset/support/packed.h"

#include <boost/iostreams/device/back_inserter.hpp>
#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>

namespace tailrace::dataset::test {

std::string pack(Packing packing, std::string_view text) {
  namespace io = boost::iostreams;
  std::string packed;
  io::filtering_ostreambuf out;
  switch (packing) {
    case Packing::kGzip:
      out.push(io::gzip_compressor());
      break;
    case Packing::kZstd:
      out.push(io::zstd_compressor());
      break;
    case Packing::kXz:
      out.push(io::lzma_compressor());
      break;
    case Packing::kBzip2:
      out.push(io::bzip2_compressor());
      break;
  }
  out.push(io::back_inserter(packed));
  out.sputn(text.data(), static_cast<std::streamsize>(text.size()));
  io::close(out);
  return packed;
}

}  // namespace tailrace::dataset::test
