#include "tailrace/core/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "tailrace/core/text.h"

namespace tailrace::core {
namespace {

constexpr std::size_t kDepthMax = 16;
constexpr std::size_t kNodesMax = 100'000;
constexpr std::size_t kKeysMax = 10'000;  // of one mapping

/// Ends the parse from inside yaml-cpp's callbacks; never leaves this file.
struct Refused : std::runtime_error {
  Refused(const YAML::Mark& mark, const std::string& what)
      : std::runtime_error(fmt::format("{}: {}", mark.line + 1, what)) {}
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) throw Refused(mark, "a second document begins; only one is read");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    // A key may be called "null".
    add(mark, YamlNode::Kind::kNull, expects_key() ? "null" : "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    add(mark, YamlNode::Kind::kScalar, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    YamlNode node;
    bool has_key = false;
    std::string key;
  };

  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap &&
           !open_.back().has_key;
  }

  static void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      throw Refused(mark, "anchors and aliases are not supported; write the value out");
    }
  }

  void count(const YAML::Mark& mark) {
    if (++nodes_ > kNodesMax) throw Refused(mark, fmt::format("more than {} values", kNodesMax));
  }

  void add(const YAML::Mark& mark, YamlNode::Kind kind, const std::string& text) {
    count(mark);
    if (expects_key()) return set_key(mark, text);
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.text = text;
    attach(std::move(node));
  }

  void set_key(const YAML::Mark& mark, const std::string& key) {
    Open& map = open_.back();
    if (map.node.members.size() >= kKeysMax) {
      throw Refused(mark, fmt::format("more than {} keys in one mapping", kKeysMax));
    }
    for (const auto& [other, node] : map.node.members) {
      if (other == key) {
        throw Refused(mark, fmt::format("key {} stands twice, first on line {}; keep one",
                                        quoted(key), node.line));
      }
    }
    map.key = key;
    map.has_key = true;
  }

  void begin(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    refuse_anchor(mark, anchor);
    count(mark);
    if (expects_key()) throw Refused(mark, "a key must be plain text");
    if (open_.size() >= kDepthMax) {
      throw Refused(mark, fmt::format("nested deeper than {} levels", kDepthMax));
    }
    Open open;
    open.node.kind = kind;
    open.node.line = mark.line + 1;
    open_.push_back(std::move(open));
  }

  void end() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    attach(std::move(node));
  }

  void attach(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else {
      parent.node.members.push_back({std::move(parent.key), std::move(node)});
      parent.has_key = false;
    }
  }

  YamlNode root_;
  std::vector<Open> open_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text) {
  TreeBuilder builder;
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    return fail(ErrorCode::kInvalidArgument, refused.what());
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: not valid YAML: {}", error.mark.line + 1, error.msg));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("1: not valid YAML: {}", error.what()));
  }
  return builder.take();
}

}  // namespace tailrace::core
