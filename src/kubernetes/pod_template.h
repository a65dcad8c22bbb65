// What does a pod template start, and on which hardware?
//
// Pure: a template's JSON in, the engine's flags, its GPUs and its accelerator out. What a template
// does not tell is empty, with the reason in `notes` where somebody may wonder.
#pragma once

#include <simdjson.h>

#include <map>
#include <string>
#include <vector>

#include "kubernetes/pod_template_words.h"
#include "tailrace/kubernetes/discovery.h"

namespace tailrace::kubernetes {

struct TemplateReading {
  EngineFlags engine;
  std::map<std::string, std::string> labels, annotations;
  int gpus = 0;  ///< of one pod; 0: none is asked for
  std::string accelerator;
  std::string role = "both";
  std::vector<std::string> notes;  ///< a sentence each
};

/// `pod_template` is an object with metadata and spec.
TemplateReading read_pod_template(simdjson::dom::element pod_template);

/// The accelerator that somebody wrote down on an object, by label or annotation; "": nobody.
std::string stated_accelerator(const std::map<std::string, std::string>& labels,
                               const std::map<std::string, std::string>& annotations);

/// The label by which nodes tell their GPU's product; "": none of the known ones.
std::string node_product(const std::map<std::string, std::string>& node_labels);
/// Whether a resource counts GPUs: nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915, …
bool is_gpu_resource(std::string_view name);

/// Sixteen hexadecimal digits over what decides how fast a replica is: image, flags that matter,
/// accelerator and GPUs. Names, ports and log levels do not change it.
std::string fingerprint(const EngineFlags& engine, const std::string& accelerator, int gpus);

/// What the commands of a container start: engine, limits and names; notes tell what only a shell
/// could know.
EngineFlags read_engine_flags(const std::string& image, const std::vector<Words>& commands,
                              const Environment& environment, std::vector<std::string>& notes);

}  // namespace tailrace::kubernetes
