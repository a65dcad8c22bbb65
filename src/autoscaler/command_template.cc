#include "autoscaler/command_template.h"

#include <fmt/format.h>

#include <optional>

#include "tailrace/autoscaler/process_actuator.h"
#include "tailrace/core/text.h"

namespace tailrace::autoscaler {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";

Result<std::string> fill(std::string_view text,
                         const std::map<std::string, std::string, std::less<>>& values) {
  std::string filled;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    filled += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open + 1);
    const std::size_t end = text.find_first_not_of(kLetters);
    if (end == 0 || end == std::string_view::npos || text[end] != '}') {
      filled += '{';
      continue;
    }
    const std::string_view word = text.substr(0, end);
    const auto value = values.find(word);
    if (value == values.end()) {
      std::string known;
      for (const auto& [name, unused] : values) known += fmt::format(" {{{}}}", name);
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{{{}}} stands for nothing here; use{}", word, known));
    }
    filled += value->second;
    text.remove_prefix(end + 1);
  }
  return filled;
}

/// Reads words with quotes and backslashes.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> split() {
    while (at_ < text_.size()) {
      if (auto ok = take(text_[at_++]); !ok) return fail(ok.error());
    }
    if (quote_ != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("a quote {} is not closed in {}", quote_, core::quoted(text_)));
    }
    end_word();
    return std::move(words_);
  }

 private:
  Result<void> take(char c) {
    if (quote_ != 0) return in_quotes(c);
    if (c == '\'' || c == '"') {
      quote_ = c;
      if (!word_) word_.emplace();
      return {};
    }
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      end_word();
      return {};
    }
    if (std::string_view("|&;<>$`").find(c) != std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' in {} would need a shell, and there is none; quote it, or make "
                              "the command [\"sh\", \"-c\", \"exec …\"]",
                              c, core::quoted(text_)));
    }
    add(c == '\\' && at_ < text_.size() ? text_[at_++] : c);
    return {};
  }

  Result<void> in_quotes(char c) {
    if (c == quote_) {
      quote_ = 0;
    } else if (c == '\\' && quote_ == '"' && at_ < text_.size() &&
               (text_[at_] == '"' || text_[at_] == '\\')) {
      add(text_[at_++]);
    } else {
      add(c);
    }
    return {};
  }

  void add(char c) {
    if (!word_) word_.emplace();
    word_->push_back(c);
  }
  void end_word() {
    if (word_) words_.push_back(std::move(*word_));
    word_.reset();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  char quote_ = 0;
  std::optional<std::string> word_;
  std::vector<std::string> words_;
};

}  // namespace

Result<std::vector<std::string>> fill_command(
    const std::vector<std::string>& command,
    const std::map<std::string, std::string, std::less<>>& values) {
  std::vector<std::string> filled;
  filled.reserve(command.size());
  for (const auto& word : command) {
    auto text = fill(word, values);
    if (!text) return fail(text.error());
    filled.push_back(std::move(*text));
  }
  return filled;
}

Result<std::vector<std::string>> split_command(std::string_view text) {
  auto words = Splitter(text).split();
  if (words && words->empty()) {
    return fail(ErrorCode::kInvalidArgument, "the command is empty; give a program and its flags");
  }
  return words;
}

}  // namespace tailrace::autoscaler
