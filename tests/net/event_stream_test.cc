#include "tailrace/net/event_stream.h"

#include <gmock/gmock.h>

#include <vector>

namespace tailrace::net {
namespace {

using Kind = EventLine::Kind;

struct Line {
  std::string text;
  Kind kind;
  std::string value;
  friend bool operator==(const Line&, const Line&) = default;
};

struct Scanned {
  std::string raw;
  std::vector<Line> lines;  ///< without the LF that a split CR LF reports on its own
};

/// Feeds the pieces of `stream` that end at the given offsets.
Scanned scan(std::string_view stream, const std::vector<std::size_t>& cuts,
             std::size_t line_bytes_max = 1 << 20) {
  Scanned result;
  EventStreamScanner scanner(line_bytes_max);
  EventStreamScanner::OnLine on_line = [&](const EventLine& line) {
    result.raw += line.raw;
    if (line.raw == "\n" && line.kind == Kind::kField) return;
    result.lines.push_back({std::string(line.text), line.kind, std::string(line.value)});
  };
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    scanner.feed(stream.substr(from, cut - from), on_line);
    from = cut;
  }
  scanner.feed(stream.substr(from), on_line);
  result.raw += scanner.pending();
  return result;
}

const std::string kStreams[] = {
    "data: {\"a\":1}\n\ndata: [DONE]\n\n",
    "\xef\xbb\xbf"
    "data: first\r\n\r\n: keep-alive\r\n\r\nevent: error\r\ndata\r\n\r\n",
    "data:\xe4\xbd\xa0\xe5\xa5\xbd\r\rdata: \xf0\x9f\x98\x80\r\r",
    "id: 7\ndata:  two blanks\ndatax: no\n:\n\n\r\n\r\r\n\nretry: 3",
    "\xef\xbb\xbf\n\xef\xbb\xbf"
    "data: only the first line has a mark\n",
    "",
};

TEST(EventStreamScanner, NamesWhatEachLineIs) {
  EXPECT_THAT(
      scan(kStreams[1], {}).lines,
      testing::ElementsAre(Line{"data: first", Kind::kData, "first"}, Line{"", Kind::kBlank, ""},
                           Line{": keep-alive", Kind::kComment, ""}, Line{"", Kind::kBlank, ""},
                           Line{"event: error", Kind::kField, ""}, Line{"data", Kind::kData, ""},
                           Line{"", Kind::kBlank, ""}));
  EXPECT_THAT(
      scan("data:  x\ndata:y\ndatax:z\n", {}).lines,
      testing::ElementsAre(Line{"data:  x", Kind::kData, " x"}, Line{"data:y", Kind::kData, "y"},
                           Line{"datax:z", Kind::kField, ""}));
}

TEST(EventStreamScanner, AllLineEndsGiveTheSameLines) {
  const auto lf = scan("data: a\n\ndata: b\n\n", {}).lines;
  EXPECT_EQ(scan("data: a\r\n\r\ndata: b\r\n\r\n", {}).lines, lf);
  EXPECT_EQ(scan("data: a\r\rdata: b\r\r", {}).lines, lf);
}

TEST(EventStreamScanner, EverySplitIntoReadsGivesTheSameLinesAndTheSameBytes) {
  for (const std::string& stream : kStreams) {
    const Scanned whole = scan(stream, {});
    EXPECT_EQ(whole.raw, stream);
    for (std::size_t i = 0; i <= stream.size(); ++i) {
      for (std::size_t j = i; j <= stream.size(); ++j) {
        const Scanned cut = scan(stream, {i, j});
        ASSERT_EQ(cut.raw, stream) << i << " " << j;
        ASSERT_EQ(cut.lines, whole.lines) << stream << " cut at " << i << " and " << j;
      }
    }
    std::vector<std::size_t> each(stream.size());
    for (std::size_t i = 0; i < each.size(); ++i) each[i] = i + 1;
    const Scanned bytewise = scan(stream, each);
    EXPECT_EQ(bytewise.raw, stream);
    EXPECT_EQ(bytewise.lines, whole.lines);
  }
}

TEST(EventStreamScanner, ALineIsReportedAsSoonAsItsEndIsThere) {
  EventStreamScanner scanner;
  int lines = 0;
  EventStreamScanner::OnLine on_line = [&](const EventLine&) { ++lines; };
  scanner.feed("data: x\r", on_line);
  EXPECT_EQ(lines, 1);
  scanner.feed("", on_line);
  EXPECT_EQ(scanner.pending(), "");
  scanner.feed("dat", on_line);
  EXPECT_EQ(lines, 1);
  EXPECT_EQ(scanner.pending(), "dat");
}

TEST(EventStreamScanner, AnEndlessLineComesInPiecesAndMemoryStaysBounded) {
  const std::string stream = "data: " + std::string(1000, 'x') + "\ndata: y\n";
  std::vector<Line> whole;
  for (std::size_t cut = 0; cut < stream.size(); ++cut) {
    EventStreamScanner scanner(100);
    std::string raw;
    std::vector<Line> lines;
    EventStreamScanner::OnLine on_line = [&](const EventLine& line) {
      raw += line.raw;
      ASSERT_LE(line.raw.size(), 101U);
      lines.push_back({std::string(line.text), line.kind, std::string(line.value)});
    };
    scanner.feed(std::string_view(stream).substr(0, cut), on_line);
    EXPECT_LE(scanner.pending().size(), 100U);
    scanner.feed(std::string_view(stream).substr(cut), on_line);
    EXPECT_EQ(raw, stream);
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
      EXPECT_EQ(lines[i].kind, Kind::kField) << "a piece is never taken for data";
      EXPECT_EQ(lines[i].value, "");
    }
    EXPECT_EQ(lines.back(), (Line{"data: y", Kind::kData, "y"}));
    if (cut == 0) whole = lines;
    EXPECT_EQ(lines, whole) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace tailrace::net
