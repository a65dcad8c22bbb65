#include "predict/image.h"

#include <zlib.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tailrace/core/text.h"

namespace tailrace::predict {
namespace {

constexpr std::string_view kMagic = "TRPREDCT";
constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kKindBytes = 8;  // padded with zeros
constexpr std::size_t kHeaderBytes = 8 + 4 + kKindBytes;

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <class Word>
void append(std::string& out, Word value) {
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
  }
}

template <class Word>
Word decode(std::string_view bytes) {
  Word value = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    value |= static_cast<Word>(static_cast<Word>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  }
  return value;
}

std::string padded_kind(std::string_view kind) {
  std::string padded(kind.substr(0, kKindBytes));
  padded.resize(kKindBytes, '\0');
  return padded;
}

std::string deflated(std::string_view raw) {
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  std::string out(size, '\0');
  // compress2 with an output of compressBound bytes cannot fail but for memory; an empty result
  // would be rejected by the reader.
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(raw.data()), static_cast<uLong>(raw.size()),
                Z_BEST_SPEED) != Z_OK) {
    size = 0;
  }
  out.resize(size);
  return out;
}

}  // namespace

ImageWriter::ImageWriter(std::string_view kind, std::uint32_t version) {
  bytes_.append(kMagic);
  u32(version);
  bytes_.append(padded_kind(kind));
}

void ImageWriter::u8(std::uint8_t value) {
  append(bytes_, value);
}
void ImageWriter::u32(std::uint32_t value) {
  append(bytes_, value);
}
void ImageWriter::u64(std::uint64_t value) {
  append(bytes_, value);
}
void ImageWriter::f32(float value) {
  u32(std::bit_cast<std::uint32_t>(value));
}
void ImageWriter::f64(double value) {
  u64(std::bit_cast<std::uint64_t>(value));
}

void ImageWriter::table(std::span<const float> values) {
  std::string raw;
  raw.reserve(values.size() * sizeof(float));
  for (const float value : values) append(raw, std::bit_cast<std::uint32_t>(value));
  const std::string packed = deflated(raw);
  u64(packed.size());
  bytes_.append(packed);
}

std::string ImageWriter::finish() && {
  u32(checksum(bytes_));
  return std::move(bytes_);
}

Result<ImageReader> ImageReader::open(std::string_view image, std::string_view kind,
                                      std::uint32_t version) {
  if (image.size() < kHeaderBytes + kChecksumBytes || !image.starts_with(kMagic)) {
    return fail(
        ErrorCode::kDataLoss,
        "predictor image: " + std::to_string(image.size()) +
            " bytes that do not begin as one; predict.model_file must be what a gateway has saved, "
            "or not there yet");
  }
  const std::string_view body = image.substr(0, image.size() - kChecksumBytes);
  if (decode<std::uint32_t>(image.substr(body.size())) != checksum(body)) {
    return fail(ErrorCode::kDataLoss, "predictor image: the checksum does not match its " +
                                          std::to_string(image.size()) +
                                          " bytes; delete the file to learn afresh");
  }
  const auto found_version = decode<std::uint32_t>(body.substr(kMagic.size()));
  if (found_version != version) {
    return fail(ErrorCode::kUnsupported, "predictor image: version " +
                                             std::to_string(found_version) +
                                             ", this program reads " + std::to_string(version));
  }
  const std::string_view found_kind = body.substr(kMagic.size() + 4, kKindBytes);
  if (found_kind != padded_kind(kind)) {
    return fail(ErrorCode::kUnsupported,
                "predictor image: kind " +
                    core::quoted(found_kind.substr(0, found_kind.find('\0'))) +
                    ", this predictor reads " + core::quoted(kind));
  }
  return ImageReader(body.substr(kHeaderBytes));
}

std::string_view ImageReader::take(std::size_t count) {
  if (!ok_ || payload_.size() < count) {
    ok_ = false;
    return {};
  }
  const std::string_view bytes = payload_.substr(0, count);
  payload_.remove_prefix(count);
  return bytes;
}

std::uint8_t ImageReader::u8() {
  const auto bytes = take(1);
  return ok_ ? decode<std::uint8_t>(bytes) : std::uint8_t{0};
}

std::uint32_t ImageReader::u32() {
  const auto bytes = take(4);
  return ok_ ? decode<std::uint32_t>(bytes) : 0;
}

std::uint64_t ImageReader::u64() {
  const auto bytes = take(8);
  return ok_ ? decode<std::uint64_t>(bytes) : 0;
}

float ImageReader::f32() {
  return std::bit_cast<float>(u32());
}
double ImageReader::f64() {
  return std::bit_cast<double>(u64());
}

double ImageReader::f64_within(double low, double high) {
  const double value = f64();
  if (value >= low && value <= high) return value;
  ok_ = false;
  return low;
}

float ImageReader::f32_within(double low, double high) {
  const float value = f32();
  if (value >= low && value <= high) return value;
  ok_ = false;
  return static_cast<float>(low);
}

void ImageReader::table(std::span<float> values, float magnitude) {
  const std::uint64_t packed_size = u64();
  if (packed_size > payload_.size()) ok_ = false;
  const std::string_view packed = take(ok_ ? static_cast<std::size_t>(packed_size) : 0);
  if (!ok_) return;
  // The output is exactly the table, so a forged size cannot make it grow.
  std::string raw(values.size() * sizeof(float), '\0');
  uLongf raw_size = static_cast<uLongf>(raw.size());
  const int status =
      uncompress(reinterpret_cast<Bytef*>(raw.data()), &raw_size,
                 reinterpret_cast<const Bytef*>(packed.data()), static_cast<uLong>(packed.size()));
  if (status != Z_OK || raw_size != raw.size()) {
    ok_ = false;
    return;
  }
  const std::string_view view = raw;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(decode<std::uint32_t>(view.substr(i * sizeof(float), 4)));
    if (!(std::abs(values[i]) <= magnitude)) ok_ = false;  // NaN too
  }
}

}  // namespace tailrace::predict
