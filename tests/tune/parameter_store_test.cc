// Does what was learnt survive a restart, and only where it still applies?
#include "tailrace/tune/parameter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "support/temp_folder.h"
#include "tailrace/core/text.h"

namespace tailrace::tune {
namespace {

using ::testing::HasSubstr;
using From = ParameterStore::Started::From;

constexpr double kDay = 86'400;

/// An estimator whose mind is what the test says.
class Fixed final : public Estimator {
 public:
  explicit Fixed(std::string state, std::optional<queueing::IterationModel> values = {})
      : state_(std::move(state)) {
    estimate_.values = values;
  }
  ParameterEstimate update(std::span<const Observation>) override { return estimate_; }
  ParameterEstimate current() const override { return estimate_; }
  ParameterEstimate current_under(double, double, const queueing::Workload&) const override {
    return estimate_;
  }
  std::string save() const override { return state_; }
  Result<void> restore(std::string_view) override { return {}; }

 private:
  std::string state_;
  ParameterEstimate estimate_;
};

const queueing::IterationModel kLearnt{.alpha_ms = 10.6, .beta_ms = 0.042, .gamma_ms = 5.8e-5};
const ParameterKey kKey{"org/model-8b", "H100", fingerprint({{"image", "engine:1"}})};

Observation observed(double time_s, double load) {
  queueing::ServiceModel model;
  model.iteration = kLearnt;
  const auto latency = queueing::latency(model, queueing::Workload::of(12 * load, 1024, 256));
  EXPECT_TRUE(latency && latency->stable);
  Observation o;
  o.time_s = time_s;
  o.pod = "pod-0";
  o.rate_per_s = 12 * load;
  o.input_tokens = 1024;
  o.output_tokens = 256;
  o.ttft_ms = latency->ttft_ms;
  o.itl_ms = latency->itl_ms;
  o.requests = 720 * load;
  return o;
}

std::unique_ptr<Estimator> taught(const TuneConfig& config, int cycles) {
  auto estimator = make_estimator(config);
  EXPECT_TRUE(estimator.has_value());
  for (int i = 0; i < cycles; ++i) {
    const Observation o = observed(60.0 * (i + 1), 0.1 + 0.05 * (i % 10));
    (*estimator)->update(std::span(&o, 1));
  }
  return std::move(*estimator);
}

ParameterStore with(const ParameterKey& key, const Estimator& estimator, double now_s = 0) {
  ParameterStore store;
  EXPECT_TRUE(store.put(key, EstimatorKind::kWindowed, estimator, now_s));
  return store;
}

class ParameterFile : public ::testing::Test {
 protected:
  void write(std::string_view bytes) const {
    ASSERT_TRUE(core::write_file_atomically(path_, bytes));
  }
  ParameterStore::Loaded load() const {
    auto loaded = ParameterStore::load_file(path_, {});
    EXPECT_TRUE(loaded.has_value());
    return loaded ? std::move(*loaded) : ParameterStore::Loaded{};
  }

  TempFolder folder_;
  std::string path_ = folder_.file("parameters.json");
};

TEST(ParameterStore, EstimatorGoesOnWhereItStopped) {
  for (const auto kind : {EstimatorKind::kWindowed, EstimatorKind::kKalman}) {
    TuneConfig config;
    config.estimator = kind;
    const auto before = taught(config, 12);
    ParameterStore store;
    ASSERT_TRUE(store.put(kKey, kind, *before, 0));
    ParameterStore other;
    ASSERT_TRUE(other.restore(store.save()));

    auto started = other.start(kKey, config);
    ASSERT_TRUE(started);
    EXPECT_EQ(started->from, From::kItself);
    EXPECT_EQ(started->estimator->current().values, before->current().values);
    const Observation next = observed(60 * 13, 0.45);
    EXPECT_EQ(started->estimator->update(std::span(&next, 1)).values,
              before->update(std::span(&next, 1)).values);
  }
}

TEST(ParameterStore, ChangedFlagStartsFromAWeakenedPrior) {
  const TuneConfig config;
  const auto store = with(kKey, *taught(config, 12));
  ParameterKey changed = kKey;
  changed.configuration = fingerprint({{"image", "engine:2"}});
  const auto started = store.start(changed, config);
  ASSERT_TRUE(started);
  EXPECT_EQ(started->from, From::kRelated);
  EXPECT_THAT(started->reason, HasSubstr("in another configuration"));
  EXPECT_FALSE(started->estimator->current().accepted);

  // One light cycle says little about gamma: who knows the model's past is nearer to the truth.
  auto fresh = make_estimator(config);
  ASSERT_TRUE(fresh);
  const Observation first = observed(60, 0.05);
  const auto informed = started->estimator->update(std::span(&first, 1));
  const auto naive = (*fresh)->update(std::span(&first, 1));
  ASSERT_TRUE(informed.values && naive.values);
  const auto off = [](const ParameterEstimate& e) {
    return std::fabs(std::log(e.values->gamma_ms / kLearnt.gamma_ms));
  };
  EXPECT_LT(off(informed), off(naive));
}

TEST(ParameterStore, SameAcceleratorTeachesMoreThanAnother) {
  ParameterStore store;
  queueing::IterationModel here = kLearnt, elsewhere = kLearnt;
  here.alpha_ms = 11;
  elsewhere.alpha_ms = 33;
  ASSERT_TRUE(store.put({"m", "A100", "1"}, EstimatorKind::kWindowed, Fixed("x", elsewhere), 9));
  ASSERT_TRUE(store.put({"m", "H100", "1"}, EstimatorKind::kWindowed, Fixed("x", here), 1));
  const auto started = store.start({"m", "H100", "2"}, {});
  ASSERT_TRUE(started);
  EXPECT_THAT(started->reason, HasSubstr("\"H100\""));
  const auto moved = store.start({"m", "MI300X", "2"}, {});
  ASSERT_TRUE(moved);
  EXPECT_THAT(moved->reason, HasSubstr("\"A100\""));  // the latest seen
}

TEST(ParameterStore, AnotherModelTeachesNothing) {
  const auto store = with(kKey, Fixed("x", kLearnt));
  for (const char* model : {"org", "org/model-8", "org/model-8bb", "Org/model-8b"}) {
    const auto started = store.start({model, kKey.accelerator, kKey.configuration}, {});
    ASSERT_TRUE(started);
    EXPECT_EQ(started->from, From::kNothing) << model;
  }
}

TEST(ParameterStore, NamesWithSeparatorsDoNotCollide) {
  ParameterStore store;
  const ParameterKey keys[] = {{"a/b", "c", "d"},   {"a", "b/c", "d"}, {"a", "b", "c/d"},
                               {"a\"b", "c", "d"},  {"a,b", "c", "d"}, {"a\nb", "c", "d"},
                               {"a\\", "\"c", "d"}, {"a|b", "c", "d"}, {"a b", "c", "d"}};
  for (const auto& key : keys) {
    ASSERT_TRUE(store.put(key, EstimatorKind::kWindowed, Fixed(key.model + key.accelerator), 0));
  }
  ParameterStore other;
  ASSERT_TRUE(other.restore(store.save()));
  ASSERT_EQ(other.entries().size(), std::size(keys));
  for (const auto& key : keys) {
    EXPECT_EQ(other.entries().at(key).state, key.model + key.accelerator);
  }
}

TEST(ParameterStore, FingerprintTellsSettingsApartAndKnowsNoOrder) {
  EXPECT_EQ(fingerprint({{"a", "1"}, {"b", "2"}}), fingerprint({{"b", "2"}, {"a", "1"}}));
  EXPECT_EQ(fingerprint({}).size(), 32U);
  EXPECT_NE(fingerprint({{"a", "1b2"}}), fingerprint({{"a", "1"}, {"b", "2"}}));
  EXPECT_NE(fingerprint({{"a", "1"}}), fingerprint({{"a1", ""}}));
  EXPECT_NE(fingerprint({{"image", "v1"}}), fingerprint({{"image", "v2"}}));
}

TEST(ParameterStore, AMinusZeroIsSavedAsItIsReadAgain) {
  ParameterStore store;
  auto values = kLearnt;
  values.knee_tokens = -0.0;
  ASSERT_TRUE(store.put(kKey, EstimatorKind::kWindowed, Fixed("{}", values), 0));
  ParameterStore other;
  ASSERT_TRUE(other.restore(store.save()));
  EXPECT_EQ(other.save(), store.save());
}

TEST(ParameterStore, SameContentIsSameBytes) {
  ParameterStore one, two;
  for (const char* model : {"a", "b", "c"}) {
    ASSERT_TRUE(one.put({model, "g", "f"}, EstimatorKind::kWindowed, Fixed("s", kLearnt), 5));
  }
  for (const char* model : {"c", "a", "b"}) {
    ASSERT_TRUE(two.put({model, "g", "f"}, EstimatorKind::kWindowed, Fixed("s", kLearnt), 5));
  }
  EXPECT_EQ(one.save(), two.save());
  ParameterStore again;
  ASSERT_TRUE(again.restore(one.save()));
  EXPECT_EQ(again.save(), one.save());
}

TEST(ParameterStore, ForgetsWhatWasNotSeenForLong) {
  ParameterStore store({.entries_max = 10, .forget_after_s = 30 * kDay});
  ASSERT_TRUE(store.put({"old", "g", "f"}, EstimatorKind::kWindowed, Fixed("s"), 0));
  ASSERT_TRUE(store.put({"new", "g", "f"}, EstimatorKind::kWindowed, Fixed("s"), 29 * kDay));
  EXPECT_EQ(store.entries().size(), 2U);
  ASSERT_TRUE(store.put({"new", "g", "f"}, EstimatorKind::kWindowed, Fixed("s"), 31 * kDay));
  ASSERT_EQ(store.entries().size(), 1U);
  EXPECT_EQ(store.entries().begin()->first.model, "new");
}

TEST(ParameterStore, LongestUnseenGoFirstWhenThereAreTooMany) {
  ParameterStore store({.entries_max = 3, .forget_after_s = 1e9});
  for (int i = 0; i < 5; ++i) {
    const ParameterKey key{"m" + std::to_string((i * 2) % 5), "g", "f"};
    ASSERT_TRUE(store.put(key, EstimatorKind::kWindowed, Fixed("s"), i));
  }
  ASSERT_EQ(store.entries().size(), 3U);
  for (const char* kept : {"m4", "m1", "m3"}) {
    EXPECT_TRUE(store.entries().contains({kept, "g", "f"})) << kept;
  }
}

TEST(ParameterStore, ClockSetBackKeepsNothingForEver) {
  ParameterStore store({.entries_max = 10, .forget_after_s = 100});
  ASSERT_TRUE(store.put({"future", "g", "f"}, EstimatorKind::kWindowed, Fixed("s"), 1e9));
  ASSERT_TRUE(store.put({"now", "g", "f"}, EstimatorKind::kWindowed, Fixed("s"), 1000));
  ASSERT_TRUE(store.put({"now", "g", "f"}, EstimatorKind::kWindowed, Fixed("s"), 1101));
  EXPECT_FALSE(store.entries().contains({"future", "g", "f"}));
}

TEST(ParameterStore, RefusesWhatItCannotKeepAndStaysAsItWas) {
  ParameterStore store = with(kKey, Fixed("s"));
  const std::string before = store.save();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto kind = EstimatorKind::kWindowed;
  EXPECT_EQ(store.put({"", "g", "f"}, kind, Fixed("s"), 0).error().message,
            "model: \"\" is empty; it tells what parameters belong to");
  EXPECT_FALSE(store.put({"m", "", "f"}, kind, Fixed("s"), 0));
  EXPECT_FALSE(store.put({"m", "g", ""}, kind, Fixed("s"), 0));
  EXPECT_FALSE(store.put({"m\xff", "g", "f"}, kind, Fixed("s"), 0));
  EXPECT_FALSE(store.put({std::string(2'000, 'm'), "g", "f"}, kind, Fixed("s"), 0));
  EXPECT_FALSE(store.put(kKey, kind, Fixed("s"), nan));
  const Fixed huge(std::string(ParameterStore::kStateBytesMax + 1, 'x'));
  EXPECT_EQ(store.put(kKey, kind, huge, 0).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(store.save(), before);
}

TEST(ParameterStore, StateOfAnotherEstimatorStillGivesItsValues) {
  TuneConfig kalman;
  kalman.estimator = EstimatorKind::kKalman;
  ParameterStore store;
  ASSERT_TRUE(store.put(kKey, EstimatorKind::kKalman, *taught(kalman, 12), 0));
  const auto started = store.start(kKey, {});
  ASSERT_TRUE(started);
  EXPECT_EQ(started->from, From::kRelated);
  EXPECT_THAT(started->reason, HasSubstr("of the estimator kalman"));
}

TEST(ParameterStore, UnreadableStateStartsFromItsValues) {
  const auto store = with(kKey, Fixed("{\"no\": \"state\"}", kLearnt));
  const auto started = store.start(kKey, {});
  ASSERT_TRUE(started);
  EXPECT_EQ(started->from, From::kRelated);
  EXPECT_THAT(started->reason, HasSubstr("cannot be read"));
}

TEST(ParameterStore, DamagedDocumentChangesNothing) {
  ParameterStore store = with(kKey, *taught({}, 5));
  const std::string good = store.save();
  for (std::size_t cut = 0; cut + 2 < good.size(); cut += 7) {
    EXPECT_FALSE(store.restore(std::string_view(good).substr(0, cut))) << cut;
    EXPECT_EQ(store.save(), good);
  }
  const std::string entry =
      R"({"model":"m","accelerator":"g","configuration":"f","seen_s":1,"identified":false,)"
      R"("values":null,"estimator":"windowed","state":"s"})";
  const auto document = [](const std::string& entries) {
    return R"({"format":"tailrace-parameters","version":1,"entries":[)" + entries + "]}";
  };
  ASSERT_TRUE(ParameterStore().restore(document(entry)));
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string text = document(entry);
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& bad :
       {std::string("[]"), std::string("{}"), replaced("tailrace-parameters", "other"),
        replaced("\"version\":1", "\"version\":\"1\""), replaced("\"m\"", "7"),
        replaced("\"m\"", "\"\""), replaced("\"seen_s\":1", "\"seen_s\":null"),
        replaced("\"seen_s\":1", "\"seen_s\":1e999"), replaced("false", "0"),
        replaced("null", "[]"), replaced("null", R"({"alpha_ms":1})"),
        replaced("null",
                 R"({"alpha_ms":-1,"beta_ms":1,"gamma_ms":1,"knee_tokens":0,"per_request_ms":0})"),
        replaced("windowed", "other"), document(entry + "," + entry), document("1")}) {
    const auto result = store.restore(bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().code, ErrorCode::kDataLoss) << bad;
    EXPECT_EQ(store.save(), good);
  }
  EXPECT_EQ(store.restore(replaced("\"version\":1", "\"version\":2")).error().code,
            ErrorCode::kUnsupported);
}

TEST_F(ParameterFile, NoFileIsAnEmptyStore) {
  const auto loaded = load();
  EXPECT_TRUE(loaded.store.entries().empty());
  EXPECT_FALSE(loaded.damage);
}

TEST_F(ParameterFile, ReadsBackWhatItWrote) {
  const auto store = with(kKey, *taught({}, 5));
  ASSERT_TRUE(store.save_file(path_));
  const auto loaded = load();
  EXPECT_FALSE(loaded.damage);
  EXPECT_EQ(loaded.store.save(), store.save());
}

TEST_F(ParameterFile, DamagedFileIsKeptAsideEachTime) {
  for (const std::string kept : {".damaged", ".damaged-2"}) {
    write("half a docu" + kept);
    const auto loaded = load();
    ASSERT_TRUE(loaded.damage);
    EXPECT_THAT(loaded.damage->message, HasSubstr(path_ + kept));
    EXPECT_TRUE(loaded.store.entries().empty());
    EXPECT_EQ(*core::read_file(path_ + kept, 100), "half a docu" + kept);
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
}

TEST_F(ParameterFile, WhatIsNoFileIsAnErrorAndStays) {
  std::filesystem::create_directories(path_);
  EXPECT_FALSE(ParameterStore::load_file(path_, {}));
  EXPECT_TRUE(std::filesystem::is_directory(path_));
}

TEST_F(ParameterFile, KilledWriterLeavesAWholeFile) {
  ASSERT_TRUE(with(kKey, Fixed("0", kLearnt)).save_file(path_));
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    for (int i = 1;; ++i) {
      const auto store =
          with(kKey, Fixed(std::string(static_cast<std::size_t>(i % 50) * 1'000, 's'), kLearnt));
      if (!store.save_file(path_)) ::_exit(1);
    }
  }
  ::usleep(100'000);
  ASSERT_EQ(::kill(writer, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status));
  const auto loaded = load();
  EXPECT_FALSE(loaded.damage);
  EXPECT_EQ(loaded.store.entries().size(), 1U);
}

}  // namespace
}  // namespace tailrace::tune
