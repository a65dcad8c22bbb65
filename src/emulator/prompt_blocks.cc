#include "emulator/prompt_blocks.h"

#include <algorithm>

#include "tailrace/core/rng.h"

namespace tailrace::emulator {

void PromptBlocks::add(std::string_view bytes) {
  while (block_bytes_ > 0 && ids_.size() < kIdsMax && !bytes.empty()) {
    const std::string_view part = bytes.substr(0, block_bytes_ - partial_.size());
    partial_ += part;
    bytes.remove_prefix(part.size());
    if (partial_.size() < block_bytes_) return;
    chain_ = stable_hash(partial_, chain_);
    ids_.push_back(chain_);
    partial_.clear();
  }
}

void PromptBlocks::add_token(std::int64_t id) {
  char bytes[kBytesPerToken];
  for (std::size_t i = 0; i < kBytesPerToken; ++i) {
    bytes[i] = static_cast<char>((static_cast<std::uint64_t>(id) >> (8 * i)) & 0xff);
  }
  add({bytes, sizeof bytes});
}

std::vector<std::uint64_t> PromptBlocks::ids(std::int64_t prompt_tokens) const {
  if (block_bytes_ == 0) return {};
  const auto whole = static_cast<std::size_t>(prompt_tokens) / (block_bytes_ / kBytesPerToken);
  const std::size_t count = std::min(kIdsMax, whole);
  std::vector<std::uint64_t> all(ids_);
  if (all.size() > count) all.resize(count);
  std::uint64_t chain = stable_hash(partial_, chain_);
  while (all.size() < count) {
    chain = stable_hash("beyond the text", chain);
    all.push_back(chain);
  }
  return all;
}

}  // namespace tailrace::emulator
