// What a pod template tells of its engine, however its flags are written.
#include "kubernetes/pod_template.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubernetes/fields.h"

namespace tailrace::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TemplateReading read(const std::string& json) {
  fields::Parser parser;
  const auto root = parser.parse(json);
  EXPECT_TRUE(root) << json;
  return root ? read_pod_template(*root) : TemplateReading{};
}

/// A template with one container; `fields` are its JSON members.
TemplateReading container(const std::string& fields) {
  return read(fmt::format(R"j({{"spec":{{"containers":[{{"name":"engine",{}}}]}}}})j", fields));
}

TEST(PodTemplate, ReadsAFlagInEveryForm) {
  for (
      const char* fields : {
          R"j("image":"vllm/vllm-openai:v0.11.0","args":["--model","m","--max-num-seqs","64"])j",
          R"j("image":"vllm/vllm-openai:v0.11.0","args":["--model=m","--max-num-seqs=64"])j",
          R"j("image":"mine:1","command":["vllm","serve","m"],"args":["--max-num-seqs=64"])j",
          R"j("image":"mine:1","command":["vllm","serve","m","--max-num-seqs","64"])j",
          R"j("image":"mine:1","command":["/usr/local/bin/vllm"],"args":["serve","m","--max_num_seqs","64"])j",
          R"j("image":"mine:1","command":["python3","-m","vllm.entrypoints.openai.api_server"],
              "args":["--model","m","--max-num-seqs=64"])j",
          R"j("image":"mine:1","command":["sh","-c"],"args":["exec vllm serve m --max-num-seqs 64"])j",
          R"j("image":"mine:1","command":["/bin/bash","-ec","vllm serve m --max-num-seqs=64"])j",
          R"j("image":"mine:1","command":["/bin/sh","-c"],
              "args":["nvidia-smi; export X=1\nvllm serve 'm' \\\n  --port 8000 \\\n  --max-num-seqs \"64\" 2>&1 | tee /log"])j",
          R"j("image":"mine:1","command":["bash","-lc"],
              "args":["# --max-num-seqs 7\nN=64 && vllm serve m --max-num-seqs $N"])j",
          R"j("image":"mine:1","env":[{"name":"N","value":"64"}],"command":["vllm","serve","m"],
              "args":["--max-num-seqs","$(N)"])j",
          R"j("image":"mine:1","env":[{"name":"N","value":"64"}],"command":["sh","-c"],
              "args":["vllm serve m --max-num-seqs ${N:-9}"])j",
          R"j("image":"mine:1","command":["sh","-c"],"args":["vllm serve m --max-num-seqs ${N:-64}"])j",
          R"j("image":"mine:1","env":[{"name":"EXTRA","value":"--max-num-seqs 64 --seed 1"}],
              "command":["sh","-c"],"args":["vllm serve m $EXTRA"])j",
          R"j("image":"mine:1","args":["--model","m","--max-num-seqs","64"])j",
          R"j("image":"vllm/vllm-openai","args":["--model","m","--max-num-seqs","9","--max-num-seqs","64"])j",
      }) {
    const auto reading = container(fields);
    EXPECT_EQ(reading.engine.engine, "vllm") << fields;
    EXPECT_EQ(reading.engine.max_num_seqs, 64) << fields;
    EXPECT_THAT(reading.engine.served_names, ElementsAre("m")) << fields;
  }
}

TEST(PodTemplate, ReadsWhatVllmLimits) {
  const auto reading = container(
      R"j("image":"vllm/vllm-openai:v0.11.0","args":["--model","org/base","--served-model-name",
         "base","alias","--max-num-seqs","128","--max-num-batched-tokens","8k","--max-model-len",
         "32K","-tp","4","--data-parallel-size=2","--port","8200","--enable-lora",
         "--lora-modules","sql=/a","chat=/b"])j");
  EXPECT_EQ(reading.engine.max_num_seqs, 128);
  EXPECT_EQ(reading.engine.max_batched_tokens, 8'000);
  EXPECT_EQ(reading.engine.max_model_len, 32'768);
  EXPECT_EQ(reading.engine.data_parallel, 2);
  EXPECT_EQ(reading.engine.all.at("tensor-parallel-size"), "4");
  EXPECT_EQ(reading.engine.port, 8200);
  EXPECT_THAT(reading.engine.served_names, ElementsAre("base", "alias", "org/base", "sql", "chat"));
}

TEST(PodTemplate, ReadsWhatSglangLimits) {
  for (
      const char* fields : {
          R"j("image":"lmsysorg/sglang:v0.5.3","args":["--model-path","m",)j",
          R"j("image":"mine","command":["python3","-m","sglang.launch_server"],"args":["--model-path","m",)j",
          R"j("image":"mine","args":["--model-path","m",)j",
      }) {
    const auto reading = container(
        std::string(fields) +
        R"j("--max-running-requests","48","--chunked-prefill-size","4096","--context-length=16384",
           "--max-total-tokens","200000","--tp","2"])j");
    EXPECT_EQ(reading.engine.engine, "sglang") << fields;
    EXPECT_EQ(reading.engine.max_num_seqs, 48);
    EXPECT_EQ(reading.engine.max_batched_tokens, 4'096);
    EXPECT_EQ(reading.engine.max_model_len, 16'384);
    EXPECT_EQ(reading.engine.kv_tokens, 200'000);
    EXPECT_EQ(reading.engine.all.at("tensor-parallel-size"), "2");
    EXPECT_EQ(reading.engine.port, 30000);
  }
}

TEST(PodTemplate, ReadsWhatLlamaCppLimitsFromFlagsAndEnvironment) {
  for (
      const char* fields : {
          R"j("image":"ghcr.io/ggml-org/llama.cpp:server-cuda","args":["-m","/models/m.gguf","-np","4","-c","16384","-a","m"])j",
          R"j("image":"mine","command":["/app/llama-server"],"args":["--parallel","4","--ctx-size=16384","--alias","m","-m","x"])j",
          R"j("image":"ghcr.io/ggml-org/llama.cpp:server","env":[{"name":"LLAMA_ARG_N_PARALLEL","value":"4"},
              {"name":"LLAMA_ARG_CTX_SIZE","value":"16384"},{"name":"LLAMA_ARG_ALIAS","value":"m"}])j",
      }) {
    const auto reading = container(fields);
    EXPECT_EQ(reading.engine.engine, "llama.cpp") << fields;
    EXPECT_EQ(reading.engine.max_num_seqs, 4) << fields;
    EXPECT_EQ(reading.engine.kv_tokens, 16'384) << fields;
    EXPECT_EQ(reading.engine.max_model_len, 4'096) << fields;
    EXPECT_EQ(reading.engine.served_names.at(0), "m") << fields;
    EXPECT_EQ(reading.engine.port, 8080) << fields;
  }
}

TEST(PodTemplate, ReadsWhatTensorRtLlmLimits) {
  const auto reading = container(
      R"j("image":"nvcr.io/nvidia/tensorrt-llm/release:1.0","command":["trtllm-serve","org/m"],
         "args":["--max_batch_size","256","--max_num_tokens","8192","--max_seq_len","4096"])j");
  EXPECT_EQ(reading.engine.engine, "tensorrt-llm");
  EXPECT_EQ(reading.engine.max_num_seqs, 256);
  EXPECT_EQ(reading.engine.max_batched_tokens, 8'192);
  EXPECT_EQ(reading.engine.max_model_len, 4'096);
  EXPECT_THAT(reading.engine.served_names, ElementsAre("org/m"));
}

TEST(PodTemplate, AFlagThatIsNotSaidIsUnknownAndNotADefault) {
  const auto reading =
      container(R"j("image":"vllm/vllm-openai","args":["--model","m","--max-model-len","-1"])j");
  EXPECT_FALSE(reading.engine.max_num_seqs);
  EXPECT_FALSE(reading.engine.max_batched_tokens);
  EXPECT_FALSE(reading.engine.max_model_len);
  for (const char* number : {"0", "-5", "many", "1e30", "nan", "3.5", "9999999999999999"}) {
    EXPECT_FALSE(
        container(
            fmt::format(R"j("image":"vllm/vllm-openai","args":["--max-num-seqs","{}"])j", number))
            .engine.max_num_seqs)
        << number;
  }
}

TEST(PodTemplate, WhatOnlyTheShellKnowsIsANote) {
  const auto reading = container(
      R"j("image":"mine","command":["sh","-c"],"args":["vllm serve m --max-num-seqs $(nproc)"])j");
  EXPECT_FALSE(reading.engine.max_num_seqs);
  ASSERT_EQ(reading.notes.size(), 1U);
  EXPECT_THAT(reading.notes[0], HasSubstr("--max-num-seqs"));
  EXPECT_EQ(container(R"j("image":"mine","env":[{"name":"N","valueFrom":{"secretKeyRef":{}}}],
      "command":["vllm","serve","m","--max-num-seqs","$(N)"])j")
                .notes.size(),
            1U);
}

TEST(PodTemplate, AnUnknownImageIsUnknown) {
  const auto reading = container(R"j("image":"nginx:1","args":["--verbose"])j");
  EXPECT_EQ(reading.engine.engine, "unknown");
  EXPECT_EQ(reading.engine.port, 8000);
  EXPECT_THAT(reading.engine.served_names, IsEmpty());
}

TEST(PodTemplate, AnAnnotationNamesTheEngineThatNothingElseTells) {
  EXPECT_EQ(read(R"j({"metadata":{"annotations":{"tailrace.dev/engine":"sglang"}},
                     "spec":{"containers":[{"image":"mine"}]}})j")
                .engine.engine,
            "sglang");
}

TEST(PodTemplate, TheEngineIsFoundBesideItsSidecars) {
  const auto reading = read(R"j({"spec":{
    "initContainers":[{"image":"busybox","command":["sh","-c","download"]}],
    "containers":[
      {"image":"routing-proxy:1","args":["--port=8000","--vllm-port=8200"]},
      {"image":"mine:1","command":["vllm","serve","m","--port","8200","--max-num-seqs","32"],
       "resources":{"limits":{"nvidia.com/gpu":"2"}}}]}})j");
  EXPECT_EQ(reading.engine.image, "mine:1");
  EXPECT_EQ(reading.engine.port, 8200);
  EXPECT_EQ(reading.engine.max_num_seqs, 32);
  EXPECT_EQ(reading.gpus, 2);
}

TEST(PodTemplate, CountsGpusOfEveryVendor) {
  const auto gpus = [](const std::string& resources) {
    return container(fmt::format(R"j("image":"vllm","resources":{})j", resources)).gpus;
  };
  EXPECT_EQ(gpus(R"j({"limits":{"nvidia.com/gpu":"4"}})j"), 4);
  EXPECT_EQ(gpus(R"j({"limits":{"nvidia.com/gpu":4},"requests":{"nvidia.com/gpu":4}})j"), 4);
  EXPECT_EQ(gpus(R"j({"requests":{"amd.com/gpu":"8"}})j"), 8);
  EXPECT_EQ(gpus(R"j({"limits":{"gpu.intel.com/i915":"1"}})j"), 1);
  EXPECT_EQ(gpus(R"j({"limits":{"gpu.intel.com/xe":"2"}})j"), 2);
  EXPECT_EQ(gpus(R"j({"limits":{"nvidia.com/mig-3g.40gb":"1"}})j"), 1);
  EXPECT_EQ(gpus(R"j({"limits":{"cpu":"8","memory":"16Gi"}})j"), 0);
  EXPECT_EQ(gpus(R"j({"limits":{"nvidia.com/gpu":"-3"}})j"), 0);
  EXPECT_EQ(gpus(R"j({"limits":{"nvidia.com/gpu":"many"}})j"), 0);
}

TEST(PodTemplate, TheAcceleratorIsWhatMustBeNotWhatMayBe) {
  EXPECT_EQ(
      read(R"j({"spec":{"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-H100"}}})j").accelerator,
      "NVIDIA-H100");
  EXPECT_EQ(read(R"j({"spec":{"nodeSelector":{"cloud.google.com/gke-accelerator":"nvidia-l4"}}})j")
                .accelerator,
            "nvidia-l4");
  const auto affinity = [](const std::string& kind, const std::string& values) {
    return read(fmt::format(R"j({{"spec":{{"affinity":{{"nodeAffinity":{{"{}":{}}}}}}}}})j", kind,
                            kind.starts_with("required")
                                ? fmt::format(R"j({{"nodeSelectorTerms":[{{"matchExpressions":[
                {{"key":"nvidia.com/gpu.product","operator":"In","values":{}}}]}}]}})j",
                                              values)
                                : fmt::format(R"j([{{"weight":1,"preference":{{"matchExpressions":[
                {{"key":"nvidia.com/gpu.product","operator":"In","values":{}}}]}}}}])j",
                                              values)));
  };
  const std::string required = "requiredDuringSchedulingIgnoredDuringExecution";
  EXPECT_EQ(affinity(required, R"j(["A100"])j").accelerator, "A100");
  const auto either = affinity(required, R"j(["A100","H100"])j");
  EXPECT_EQ(either.accelerator, "");
  ASSERT_EQ(either.notes.size(), 1U);
  EXPECT_THAT(either.notes[0], HasSubstr("2 kinds of GPU"));
  EXPECT_EQ(
      affinity("preferredDuringSchedulingIgnoredDuringExecution", R"j(["A100"])j").accelerator, "");
  EXPECT_EQ(read(R"j({"metadata":{"labels":{"inference.optimization/acceleratorName":"A100"}},
                     "spec":{"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-A100"}}})j")
                .accelerator,
            "A100");
}

TEST(PodTemplate, ReadsTheRole) {
  const auto role = [](const std::string& value) {
    return read(fmt::format(R"j({{"metadata":{{"labels":{{"llm-d.ai/role":"{}"}}}}}})j", value))
        .role;
  };
  EXPECT_EQ(role("prefill"), "prefill");
  EXPECT_EQ(role("decode"), "decode");
  EXPECT_EQ(role("both"), "both");
  EXPECT_EQ(role("other"), "both");
  EXPECT_EQ(read("{}").role, "both");
}

TEST(PodTemplate, TheFingerprintChangesWithWhatDecidesTheSpeed) {
  const auto print = [](const std::string& args, const std::string& image = "vllm:1",
                        const std::string& accelerator = "H100", int gpus = 1) {
    const auto reading = container(fmt::format(R"j("image":"{}","args":[{}])j", image, args));
    return fingerprint(reading.engine, accelerator, gpus);
  };
  const auto base = print(R"j("--model","m","--max-num-seqs","64")j");
  EXPECT_EQ(base.size(), 16U);
  EXPECT_EQ(base, print(R"j("--max-num-seqs=64","--model=m")j"));
  EXPECT_EQ(base, print(R"j("--model","m","--max-num-seqs","64","--port","9000")j"));
  EXPECT_EQ(base, print(R"j("--model","m","--max-num-seqs","64","--served-model-name","x")j"));
  EXPECT_NE(base, print(R"j("--model","m","--max-num-seqs","65")j"));
  EXPECT_NE(base, print(R"j("--model","m","--max-num-seqs","64","--enforce-eager")j"));
  EXPECT_NE(base, print(R"j("--model","m","--max-num-seqs","64")j", "vllm:2"));
  EXPECT_NE(base, print(R"j("--model","m","--max-num-seqs","64")j", "vllm:1", "A100"));
  EXPECT_NE(base, print(R"j("--model","m","--max-num-seqs","64")j", "vllm:1", "H100", 2));
}

TEST(PodTemplate, SecretsAreNotKept) {
  const auto reading = container(
      R"j("image":"vllm","env":[{"name":"VLLM_API_KEY","value":"hush1"}],
         "args":["--api-key","hush2","--max-num-seqs","8","--hf-token=hush3"])j");
  for (const auto& [name, value] : reading.engine.all) EXPECT_THAT(value, Not(HasSubstr("hush")));
  EXPECT_TRUE(reading.engine.all.contains("max-num-seqs"));
}

TEST(PodTemplate, VariablesThatMultiplyStayBounded) {
  std::string env = R"j({"name":"V0","value":"xxxxxxxxxxxxxxxx "})j";
  for (int i = 1; i < 64; ++i) {
    env += fmt::format(R"j(,{{"name":"V{}","value":"$(V{})$(V{})"}})j", i, i - 1, i - 1);
  }
  std::string script;
  for (int i = 0; i < 500; ++i) script += "$V63 sh -c '$V63 $V62' ";
  const auto reading = container(
      fmt::format(R"j("image":"vllm","env":[{}],"command":["sh","-c","{}"])j", env, script));
  EXPECT_EQ(reading.engine.engine, "vllm");
}

TEST(PodTemplate, WordsOfAScriptAreWhatAShellMakesOfThem) {
  const auto commands = script_commands(
      "a 'b c' \"d $X\" e\\ f; g=1 h $g > out && (i) # no\nj \"\" ${X}k $Y", {{"X", "x y"}});
  ASSERT_EQ(commands.size(), 4U);
  EXPECT_THAT(commands[0], ElementsAre("a", "b c", "d x y", "e f"));
  EXPECT_THAT(commands[1], ElementsAre("h", "$g"));
  EXPECT_THAT(commands[2], ElementsAre("i"));
  EXPECT_THAT(commands[3], ElementsAre("j", "", "x", "yk", "$Y"));
}

TEST(PodTemplate, ReferencesExpandAsTheKubeletDoes) {
  const Environment known{{"A", "1"}};
  EXPECT_EQ(expand_references("$(A)-$(B)-$$(A)-$A-$", known), "1-$(B)-$(A)-$A-$");
  EXPECT_EQ(expand_references("$(A", known), "$(A");
}

}  // namespace
}  // namespace tailrace::kubernetes
