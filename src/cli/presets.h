// Which engines can be named, and where do their numbers come from? For `presets` and for
// `engine --list-presets`.
#pragma once

namespace tailrace::cli {

/// Prints all of them on standard output: as one JSON document, or for people.
void print_presets(bool json);

}  // namespace tailrace::cli
