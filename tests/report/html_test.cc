#include "tailrace/report/html.h"

#include <gtest/gtest.h>

namespace tailrace::report {
namespace {

TEST(Html, EscapesMarkupAndWhatIsNoUtf8) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escape_html("caf\xc3\xa9 \xff"), "caf\xc3\xa9 ?");
}

TEST(Html, APageHoldsWhatWasAddedInItsOrderAndEscapesAllOfIt) {
  HtmlPage page("<T>");
  page.add_heading("<H>");
  page.add_paragraph("<P>");
  Table table({{"<C>", Table::Align::kLeft}, {"n"}});
  table.add_row({"<R>", "1"});
  page.add_table(table);
  Figure figure;
  figure.title = "<F>";
  page.add_figures({figure, figure});
  const std::string text = page.text();
  std::size_t at = 0;
  for (const char* part :
       {"<title>&lt;T&gt;</title>", "<h1>&lt;T&gt;</h1>", "<h2>&lt;H&gt;</h2>", "<p>&lt;P&gt;</p>",
        "<th class=\"l\">&lt;C&gt;</th>", "<td class=\"l\">&lt;R&gt;</td>", "<td>1</td>", "<svg",
        "&lt;F&gt;", "<svg", "</html>"}) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part;
    at = found;
  }
  for (const char* raw : {"<T>", "<H>", "<P>", "<C>", "<R>", "<F>"}) {
    EXPECT_EQ(text.find(raw), std::string::npos) << raw;
  }
}

}  // namespace
}  // namespace tailrace::report
