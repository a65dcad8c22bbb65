// Any bytes as a predictor's saved image: a clear error or a predictor that works, and never a
// half-loaded one. The first byte chooses the kind and whether the checksum is made right, so that
// the fuzzer gets past it.
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tailrace/predict/predictor.h"

namespace {

using namespace tailrace::predict;

std::string with_right_checksum(std::string image) {
  constexpr std::size_t kChecksumBytes = 4;
  if (image.size() < kChecksumBytes) return image;
  const std::size_t size = image.size() - kChecksumBytes;
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(image.data()), size);
  for (std::size_t i = 0; i < kChecksumBytes; ++i) {
    image[size + i] = static_cast<char>(static_cast<unsigned char>(sum >> (8 * i)));
  }
  return image;
}

void require(bool condition) {
  if (!condition) std::abort();
}

RequestFeatures probe() {
  RequestFeatures features;
  features.model = "m";
  features.prompt_head = "Write 3 words about tea";
  features.prompt_tokens = tailrace::Tokens(9);
  return features;
}

void require_working(Predictor& predictor) {
  const RequestFeatures features = probe();
  for (int i = 0; i < 3; ++i) {
    const auto law = predictor.predict(std::span(&features, 1)).front().law;
    const double low = law.quantile(0.1);
    const double high = law.quantile(0.9);
    require(low > 0 && low <= high && std::isfinite(high));
    predictor.observe(features, {tailrace::Tokens(50), i == 2});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool online = (data[0] & 1U) != 0;
  std::string image(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 2U) != 0) image = with_right_checksum(std::move(image));
  const PredictorOptions options{.table_bits = 8};
  auto predictor = online ? make_online_predictor(options) : make_prior_predictor(options);
  const std::string before = predictor->save();
  if (!predictor->load(image)) {
    require(predictor->save() == before);
    return 0;
  }
  const std::string saved = predictor->save();
  require_working(*predictor);
  require(predictor->load(saved).has_value());
  require(predictor->save() == saved);
  return 0;
}
