#include "kubernetes/pod_template_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

namespace tailrace::kubernetes {
namespace {

constexpr std::size_t kBytesMax = 65'536;
constexpr std::size_t kTotalBytesMax = 1U << 20;
constexpr std::size_t kWordsMax = 10'000;
constexpr std::size_t kNestedMax = 4;  ///< a shell that starts a shell

/// What all words of one container may still take, since variables can be made to multiply.
struct Room {
  std::size_t bytes = kTotalBytesMax, words = kWordsMax;
};

bool starts_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool in_name(char c) {
  return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_shell(std::string_view word) {
  constexpr std::array<std::string_view, 6> kShells{"sh", "bash", "ash", "dash", "zsh", "ksh"};
  return std::find(kShells.begin(), kShells.end(), base_name(word)) != kShells.end();
}

/// `NAME=value` at the beginning of a command.
std::optional<std::pair<std::string, std::string>> assignment(const std::string& word) {
  if (word.empty() || !starts_name(word[0])) return {};
  std::size_t end = 1;
  while (end < word.size() && in_name(word[end])) ++end;
  if (end >= word.size() || word[end] != '=') return {};
  return std::pair{word.substr(0, end), word.substr(end + 1)};
}

/// Reads a script once from front to back.
class ScriptReader {
 public:
  ScriptReader(std::string_view text, Environment environment, Room& room)
      : text_(text.substr(0, kBytesMax)), environment_(std::move(environment)), room_(room) {}

  std::vector<Words> read() {
    while (place_ < text_.size() && room_.words > 0 && room_.bytes > 0) step();
    end_command();
    return std::move(commands_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return place_ + ahead < text_.size() ? text_[place_ + ahead] : '\0';
  }

  void step() {
    const char c = peek();
    switch (c) {
      case ' ':
      case '\t':
      case '\r':
        end_word();
        ++place_;
        return;
      case '\n':
      case ';':
      case '|':
      case '&':
      case '(':
      case ')':
        end_command();
        ++place_;
        return;
      case '#':
        if (!in_word_) {
          while (place_ < text_.size() && text_[place_] != '\n') ++place_;
          return;
        }
        add(c);
        ++place_;
        return;
      case '<':
      case '>':
        redirection();
        return;
      case '\\':
        ++place_;
        // A line that goes on, or a character taken as it is.
        if (peek() == '\r') ++place_;
        if (peek() != '\n' && place_ < text_.size()) add(peek());
        ++place_;
        return;
      case '\'':
        single_quoted();
        return;
      case '"':
        double_quoted();
        return;
      case '`':
        backticks();
        return;
      case '$':
        dollar(false);
        return;
      default:
        add(c);
        ++place_;
    }
  }

  void add(char c) {
    in_word_ = true;
    if (word_.size() >= kBytesMax || room_.bytes == 0) return;
    word_ += c;
    --room_.bytes;
  }
  void add(std::string_view text) {
    for (const char c : text) add(c);
  }

  void end_word() {
    if (in_word_ && !skip_word_ && room_.words > 0) {
      words_.push_back(word_);
      --room_.words;
    }
    if (in_word_) skip_word_ = false;
    in_word_ = false;
    word_.clear();
  }

  void end_command() {
    end_word();
    skip_word_ = false;
    if (!words_.empty()) take_command();
    words_.clear();
  }

  /// Assignments that stand alone, or after export, hold for what follows.
  void take_command() {
    std::size_t first = 0;
    const bool exported = words_[0] == "export" || words_[0] == "set";
    if (exported) ++first;
    std::size_t end = first;
    while (end < words_.size() && assignment(words_[end])) ++end;
    if (end == words_.size()) {
      for (std::size_t i = first; i < end; ++i) {
        auto [name, value] = *assignment(words_[i]);
        environment_[name] = std::move(value);
      }
      return;
    }
    if (exported) return;
    words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(end));
    commands_.push_back(words_);
  }

  void redirection() {
    // "2>" has its number in the word so far.
    if (in_word_ && std::all_of(word_.begin(), word_.end(),
                                [](unsigned char c) { return std::isdigit(c) != 0; })) {
      in_word_ = false;
      word_.clear();
    }
    end_word();
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') ++place_;
    skip_word_ = true;
  }

  void single_quoted() {
    in_word_ = true;
    for (++place_; place_ < text_.size() && peek() != '\''; ++place_) add(peek());
    ++place_;
  }

  void double_quoted() {
    in_word_ = true;
    ++place_;
    while (place_ < text_.size() && peek() != '"') {
      if (peek() == '\\') {
        const char next = peek(1);
        if (next == '\n') {
          place_ += 2;
        } else if (next == '"' || next == '\\' || next == '$' || next == '`') {
          add(next);
          place_ += 2;
        } else {
          add('\\');
          ++place_;
        }
      } else if (peek() == '$') {
        dollar(true);
      } else {
        add(peek());
        ++place_;
      }
    }
    ++place_;
  }

  void backticks() {
    add('`');
    for (++place_; place_ < text_.size() && peek() != '`'; ++place_) add(peek());
    add('`');
    ++place_;
  }

  /// What a shell would have to run is kept as written.
  void substitution() {
    int depth = 0;
    do {
      if (peek() == '(') ++depth;
      if (peek() == ')') --depth;
      add(peek());
      ++place_;
    } while (place_ < text_.size() && depth > 0);
  }

  void dollar(bool quoted) {
    if (peek(1) == '(') {
      add('$');
      ++place_;
      substitution();
      return;
    }
    const auto [name, fallback, length] = variable();
    if (length == 0) {
      add('$');
      ++place_;
      return;
    }
    const std::string_view written = text_.substr(place_, length);
    place_ += length;
    const auto known = environment_.find(name);
    if (known == environment_.end() && !fallback) {
      add(written);
      return;
    }
    const bool use_fallback = fallback && (known == environment_.end() || known->second.empty());
    const std::string value = use_fallback ? *fallback : known->second;
    if (quoted) {
      in_word_ = true;
      add(value);
      return;
    }
    for (const char c : value) {
      if (c == ' ' || c == '\t' || c == '\n') {
        end_word();
      } else {
        add(c);
      }
    }
  }

  struct Variable {
    std::string name;
    std::optional<std::string> fallback;
    std::size_t length = 0;  ///< of all that was written; 0: none
  };

  /// `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`.
  Variable variable() const {
    Variable found;
    std::size_t at = place_ + 1;
    const bool braced = at < text_.size() && text_[at] == '{';
    if (braced) ++at;
    const std::size_t begin = at;
    if (at >= text_.size() || !starts_name(text_[at])) return found;
    while (at < text_.size() && in_name(text_[at])) ++at;
    found.name = text_.substr(begin, at - begin);
    if (braced) {
      const auto close = text_.find('}', at);
      if (close == std::string_view::npos) return found;
      std::string_view rest = text_.substr(at, close - at);
      if (rest.starts_with(":-")) {
        found.fallback = rest.substr(2);
      } else if (rest.starts_with("-")) {
        found.fallback = rest.substr(1);
      } else if (!rest.empty()) {
        return found;
      }
      at = close + 1;
    }
    found.length = at - place_;
    return found;
  }

  std::string_view text_;
  Environment environment_;
  Room& room_;
  std::size_t place_ = 0;
  std::string word_;
  bool in_word_ = false, skip_word_ = false;
  Words words_;
  std::vector<Words> commands_;
};

/// The script that a command gives to a shell, if it does.
std::optional<std::string> script_of(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_shell(words[i])) continue;
    for (std::size_t j = i + 1; j + 1 < words.size(); ++j) {
      const auto& option = words[j];
      if (option.size() < 2 || option[0] != '-') break;
      if (option[1] != '-' && option.find('c') != std::string::npos) return words[j + 1];
    }
  }
  return {};
}

void append_commands(const Words& words, const Environment& environment, std::size_t depth,
                     Room& room, std::vector<Words>& into) {
  const auto script = depth < kNestedMax ? script_of(words) : std::nullopt;
  if (!script) {
    into.push_back(words);
    return;
  }
  for (const auto& command : ScriptReader(*script, environment, room).read()) {
    append_commands(command, environment, depth + 1, room, into);
  }
}

}  // namespace

std::string expand_references(std::string_view text, const Environment& environment) {
  std::string out;
  for (std::size_t i = 0; i < text.size() && out.size() < kBytesMax; ++i) {
    if (text[i] != '$' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      ++i;
      continue;
    }
    const auto close = text[i + 1] == '(' ? text.find(')', i) : std::string_view::npos;
    if (close == std::string_view::npos) {
      out += '$';
      continue;
    }
    const auto known = environment.find(std::string(text.substr(i + 2, close - i - 2)));
    out += known == environment.end() ? text.substr(i, close - i + 1)
                                      : std::string_view(known->second);
    i = close;
  }
  if (out.size() > kBytesMax) out.resize(kBytesMax);
  return out;
}

std::vector<Words> script_commands(std::string_view script, Environment environment) {
  Room room;
  return ScriptReader(script, std::move(environment), room).read();
}

std::vector<Words> container_commands(const Words& command, const Words& args,
                                      const Environment& environment) {
  Words words;
  std::size_t bytes = 0;
  for (const Words* part : {&command, &args}) {
    for (const auto& word : *part) {
      if (words.size() >= kWordsMax || bytes > kTotalBytesMax) break;
      words.push_back(expand_references(word, environment));
      bytes += words.back().size();
    }
  }
  std::vector<Words> commands;
  Room room;
  append_commands(words, environment, 0, room, commands);
  return commands;
}

}  // namespace tailrace::kubernetes
