// The prediction thread and the body thread, against a real loop.
#include <gtest/gtest.h>

#include <string>

#include "gateway/body_reader.h"
#include "support/temp_folder.h"
#include "tailrace/core/text.h"
#include "tailrace/gateway/prediction_runner.h"

namespace tailrace::gateway {
namespace {

predict::RequestFeatures features(std::string_view prompt) {
  predict::RequestFeatures result;
  result.model = "m";
  result.prompt_head = prompt;
  result.prompt_tokens = Tokens(5);
  result.cap = Tokens(1000);
  return result;
}

TEST(PredictionThread, EveryRequestGetsItsLawOnTheLoop) {
  const auto loop = net::make_event_loop();
  auto runner = make_threaded_prediction_runner(*loop, predict::make_online_predictor());
  constexpr int kRequests = 500;
  int arrived = 0;
  runner->on_result([&](JobId, const predict::Prediction& prediction) {
    EXPECT_GT(prediction.law.median(), 0);
    if (++arrived == kRequests) loop->stop();
  });
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(runner->predict(JobId(static_cast<std::uint64_t>(i + 1)), features("hello")));
    runner->observe(features("hello"), {Tokens(20), false});
  }
  const auto guard = loop->after(std::chrono::seconds(20), [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(arrived, kRequests);
  EXPECT_EQ(runner->dropped(), 0U);
}

TEST(PredictionThread, AFullInboxRefusesInsteadOfGrowing) {
  const auto loop = net::make_event_loop();
  PredictionThreadOptions options;
  options.inbox_max = 4;
  auto runner =
      make_threaded_prediction_runner(*loop, predict::make_online_predictor(), std::move(options));
  runner->on_result([](JobId, const predict::Prediction&) {});
  int refused = 0;
  // The loop takes no result, so at most the two inboxes' worth can be under way.
  for (int i = 0; i < 10'000; ++i) {
    refused += runner->predict(JobId(static_cast<std::uint64_t>(i + 1)), features("x")) ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GE(runner->dropped(), static_cast<std::uint64_t>(refused));
}

TEST(PredictionThread, ResultsAfterItsEndGoNowhere) {
  const auto loop = net::make_event_loop();
  auto runner = make_threaded_prediction_runner(*loop, predict::make_online_predictor());
  bool called = false;
  runner->on_result([&](JobId, const predict::Prediction&) { called = true; });
  for (std::uint64_t i = 1; i < 100; ++i) runner->predict(JobId(i), features("x"));
  runner.reset();
  const auto guard = loop->after(std::chrono::milliseconds(20), [&] { loop->stop(); });
  loop->run();
  EXPECT_FALSE(called);
}

TEST(PredictionThread, WhatWasLearnedSurvivesARestart) {
  const auto loop = net::make_event_loop();
  const TempFolder folder;
  const std::string file = folder.file("model");
  PredictionThreadOptions options;
  options.model_file = file;
  const auto ask = [&](PredictionRunner& runner) {
    double median = 0;
    runner.on_result([&](JobId, const predict::Prediction& prediction) {
      median = prediction.law.median();
      loop->stop();
    });
    runner.predict(JobId(1), features("hello"));
    loop->run();
    return median;
  };
  double learned = 0;
  {
    auto runner = make_threaded_prediction_runner(*loop, predict::make_online_predictor(), options);
    for (int i = 0; i < 300; ++i) runner->observe(features("hello"), {Tokens(3000), false});
    learned = ask(*runner);
  }
  auto fresh = make_threaded_prediction_runner(*loop, predict::make_online_predictor());
  auto again = make_threaded_prediction_runner(*loop, predict::make_online_predictor(), options);
  EXPECT_NE(ask(*fresh), learned);
  EXPECT_DOUBLE_EQ(ask(*again), learned);
  again.reset();
}

TEST(PredictionThread, ADamagedModelIsSetAsideAndNotFatal) {
  const TempFolder folder;
  const std::string file = folder.file("model");
  ASSERT_TRUE(core::write_file_atomically(file, "not a model"));
  const auto loop = net::make_event_loop();
  PredictionThreadOptions options;
  options.model_file = file;
  {
    auto runner = make_threaded_prediction_runner(*loop, predict::make_online_predictor(), options);
    runner->observe(features("x"), {Tokens(5), false});
  }
  EXPECT_EQ(core::read_file(file + ".damaged", 100).value_or(""), "not a model");
  EXPECT_NE(core::read_file(file, 64 << 20).value_or("not a model"), "not a model")
      << "a new model is saved in its place";
}

TEST(BodyThread, ReadsBodiesAndReportsErrorsOnTheLoop) {
  const auto loop = net::make_event_loop();
  const auto reader = make_threaded_body_reader(*loop);
  const auto good = std::make_shared<const std::string>(
      R"({"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]})");
  int answers = 0;
  const auto count = [&] {
    if (++answers == 3) loop->stop();
  };
  reader->read(Route::kChat, good, [&](Result<ReadBody> read) {
    ASSERT_TRUE(read);
    EXPECT_EQ(read->request.model, "m");
    EXPECT_TRUE(read->with_usage);
    count();
  });
  reader->read(Route::kChat, std::make_shared<const std::string>("{"), [&](Result<ReadBody> read) {
    EXPECT_FALSE(read);
    count();
  });
  reader->read(std::nullopt, std::make_shared<const std::string>(R"({"a":1,"model":"e"})"),
               [&](Result<ReadBody> read) {
                 ASSERT_TRUE(read);
                 EXPECT_EQ(read->request.model, "e");
                 count();
               });
  const auto guard = loop->after(std::chrono::seconds(20), [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(answers, 3);
}

TEST(BodyThread, EndsWithWorkStillWaiting) {
  const auto loop = net::make_event_loop();
  auto reader = make_threaded_body_reader(*loop);
  bool called = false;
  for (int i = 0; i < 20; ++i) {
    reader->read(Route::kChat, std::make_shared<const std::string>(std::string(1 << 20, ' ')),
                 [&](Result<ReadBody>) { called = true; });
  }
  reader.reset();
  const auto guard = loop->after(std::chrono::milliseconds(20), [&] { loop->stop(); });
  loop->run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace tailrace::gateway
