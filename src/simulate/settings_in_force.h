// With which settings did a cell of an experiment run, those of no file included?
#pragma once

#include <vector>

#include "simulate/experiment_schema.h"

namespace tailrace::simulate {

/// Every key with its value, written as a file would, in the order of the reference; "" where it
/// has none. Of settings that were read; at most kSettingsShownMax, the first ones.
std::vector<ShownSetting> settings_in_force(Settings settings);

/// Takes what is alike in all cells out of them: it comes back. The cells keep what varies.
std::vector<ShownSetting> shared_settings(std::vector<Cell>& cells);

}  // namespace tailrace::simulate
