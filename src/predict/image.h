// How does what a predictor has learned survive a restart?
//
// As one image: magic, format version, kind of predictor, its options, then the payload, then a
// CRC-32 of all of it. Numbers are little-endian; tables, mostly zeros, are deflated. Reading is
// total: any bytes give a value or an error, and a failed read leaves the reader's `ok()` false for
// good.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::predict {

class ImageWriter {
 public:
  ImageWriter(std::string_view kind, std::uint32_t version);

  void u8(std::uint8_t value);
  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  void f32(float value);
  void f64(double value);
  /// A table of fixed size, compressed.
  void table(std::span<const float> values);

  /// The whole image with its checksum; the writer is spent.
  std::string finish() &&;

 private:
  std::string bytes_;
};

class ImageReader {
 public:
  /// Checks the frame. Errors: kDataLoss for anything damaged or cut short; kUnsupported for an
  /// intact image of another kind or version.
  static Result<ImageReader> open(std::string_view image, std::string_view kind,
                                  std::uint32_t version);

  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  float f32();
  double f64();
  /// A number that must lie in [low, high]; out of range or NaN makes the reader fail.
  double f64_within(double low, double high);
  float f32_within(double low, double high);
  /// Fills `values` exactly; every value must be finite and within ±`magnitude`.
  void table(std::span<float> values, float magnitude);

  bool ok() const { return ok_; }
  /// True when all went well and nothing is left over.
  bool complete() const { return ok_ && payload_.empty(); }

 private:
  explicit ImageReader(std::string_view payload) : payload_(payload) {}
  std::string_view take(std::size_t count);

  std::string_view payload_;
  bool ok_ = true;
};

}  // namespace tailrace::predict
