// What was learned survives a restart, and a damaged file never passes for one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "predict/image.h"
#include "predict/support/generated_prompts.h"
#include "tailrace/core/text.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {
namespace {

using testing::generate_requests;
using testing::GeneratedRequest;

constexpr PredictorOptions kSmall{.table_bits = 8};

std::unique_ptr<Predictor> make(bool online) {
  return online ? make_online_predictor(kSmall) : make_prior_predictor(kSmall);
}

void teach(Predictor& predictor, const std::vector<GeneratedRequest>& requests) {
  for (const auto& request : requests) {
    predictor.observe(request.features, {Tokens(request.length), request.length % 7 == 0});
  }
}

void expect_same(Predictor& a, Predictor& b, const std::vector<GeneratedRequest>& requests) {
  for (const auto& request : requests) {
    const auto of_a = a.predict(std::span(&request.features, 1)).front();
    const auto of_b = b.predict(std::span(&request.features, 1)).front();
    ASSERT_EQ(of_a.law, of_b.law);
    ASSERT_EQ(of_a.calibrated, of_b.calibrated);
  }
}

// The fuzzer has to start from images that are read to their end; an older version's are refused at
// the door. `TAILRACE_WRITE_FUZZ_IMAGES=1 predict_test --gtest_filter=FuzzImages.*` renews them.
TEST(FuzzImages, AreOfThisVersion) {
  const std::string folder = TAILRACE_SOURCE_DIR "/fuzz/corpus/predictor_image/";
  const bool write = std::getenv("TAILRACE_WRITE_FUZZ_IMAGES") != nullptr;
  for (const bool online : {false, true}) {
    for (const bool learned : {false, true}) {
      auto predictor = make(online);
      if (learned) teach(*predictor, generate_requests(Rng(1), 20));
      const std::string file =
          folder + (online ? "online_" : "prior_") + (learned ? "learned" : "fresh");
      const std::string image = predictor->save();
      // The first byte tells the fuzzer the kind, and to set the checksum right.
      if (write) {
        ASSERT_TRUE(core::write_file_atomically(file, (online ? "\3" : "\2") + image));
      }
      const auto kept = core::read_file(file, std::size_t{1} << 20);
      ASSERT_TRUE(kept.has_value()) << file;
      EXPECT_TRUE(predictor->load(std::string_view(*kept).substr(1))) << file;
      if (write && online && learned) {
        ASSERT_TRUE(core::write_file_atomically(folder + "cut_short",
                                                "\3" + image.substr(0, image.size() / 2)));
        ASSERT_TRUE(core::write_file_atomically(folder + "kind_mismatch", "\2" + image));
      }
    }
  }
}

class PredictorImage : public ::testing::TestWithParam<bool> {};

TEST_P(PredictorImage, LoadedPredictorPredictsAndLearnsLikeTheSavedOne) {
  auto saved = make(GetParam());
  teach(*saved, generate_requests(Rng(1), 700));
  const std::string image = saved->save();
  auto loaded = make(GetParam());
  teach(*loaded, generate_requests(Rng(9), 50));  // must be forgotten
  ASSERT_TRUE(loaded->load(image));
  EXPECT_EQ(loaded->save(), image);
  const auto probes = generate_requests(Rng(2), 300);
  expect_same(*saved, *loaded, probes);
  teach(*saved, probes);
  teach(*loaded, probes);
  expect_same(*saved, *loaded, probes);
}

TEST_P(PredictorImage, AnyDamagedByteIsRefusedAndChangesNothing) {
  auto saved = make(GetParam());
  teach(*saved, generate_requests(Rng(3), 150));
  const std::string image = saved->save();
  auto victim = make(GetParam());
  const std::string before = victim->save();
  for (std::size_t i = 0; i < image.size(); ++i) {
    std::string damaged = image;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    const auto loaded = victim->load(damaged);
    ASSERT_FALSE(loaded) << "byte " << i;
    ASSERT_EQ(loaded.error().code, ErrorCode::kDataLoss) << "byte " << i;
  }
  EXPECT_EQ(victim->save(), before);
}

TEST_P(PredictorImage, AnyShortenedImageIsRefused) {
  auto saved = make(GetParam());
  teach(*saved, generate_requests(Rng(4), 100));
  const std::string image = saved->save();
  auto victim = make(GetParam());
  for (std::size_t size = 0; size < image.size(); ++size) {
    const auto loaded = victim->load(std::string_view(image).substr(0, size));
    ASSERT_FALSE(loaded) << size;
    ASSERT_EQ(loaded.error().code, ErrorCode::kDataLoss) << size;
  }
  EXPECT_FALSE(victim->load(image + "x"));
}

INSTANTIATE_TEST_SUITE_P(Both, PredictorImage, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "Online" : "Prior"; });

TEST(PredictorImageKinds, ImageOfAnotherKindIsUnsupported) {
  const auto loaded = make(true)->load(make(false)->save());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(loaded.error().message.find("prior"), std::string::npos);
}

TEST(PredictorImageKinds, ImageOfAnotherVersionIsUnsupported) {
  ImageWriter out("online", 999);
  const auto loaded = make(true)->load(std::move(out).finish());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(loaded.error().message.find("999"), std::string::npos);
}

TEST(PredictorImageKinds, ImageWithAnotherTableSizeIsUnsupported) {
  const auto loaded = make_online_predictor({.table_bits = 9})->load(make(true)->save());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(loaded.error().message.find("table_bits"), std::string::npos);
}

TEST(PredictorImageKinds, IntactFrameWithNonsenseInsideIsDamage) {
  ImageWriter out("online", 4);
  out.u8(8);
  for (int i = 0; i < 100; ++i) out.f64(1e300);
  const auto loaded = make(true)->load(std::move(out).finish());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kDataLoss);
}

TEST(PredictorImageKinds, HoldsNoWordOfAnyPrompt) {
  auto predictor = make(true);
  GeneratedRequest request = generate_requests(Rng(5), 1).front();
  request.features.prompt_head = "zyxwvutsrqponm confidential zyxwvutsrqponm";
  request.features.tenant = "tenantnamewritten";
  teach(*predictor, std::vector<GeneratedRequest>(200, request));
  const std::string image = predictor->save();
  EXPECT_EQ(image.find("zyxwvut"), std::string::npos);
  EXPECT_EQ(image.find("confidential"), std::string::npos);
  EXPECT_EQ(image.find("tenantname"), std::string::npos);
}

}  // namespace
}  // namespace tailrace::predict
