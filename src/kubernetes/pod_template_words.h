// Which commands does a container run, word by word?
//
// Kubernetes starts `command` and `args` as they are, with $(NAME) replaced from the environment;
// many templates put a script there (`sh -c "exec vllm serve $MODEL --port 8000"`), so scripts are
// read too: quotes, escapes, comments, assignments and variables, but nothing is run. What only a
// shell could know stays in its word as it is written.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tailrace::kubernetes {

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

/// `$(NAME)` replaced where NAME is known, `$$` made one `$`: what the kubelet does to command,
/// args and environment values. The result has at most 64 KiB.
std::string expand_references(std::string_view text, const Environment& environment);

/// The commands of a POSIX shell script in order, redirections left out. At most 64 KiB are read.
std::vector<Words> script_commands(std::string_view script, Environment environment);

/// The commands of a container: its own one, or those of the script that it gives to a shell.
std::vector<Words> container_commands(const Words& command, const Words& args,
                                      const Environment& environment);

}  // namespace tailrace::kubernetes
