// How does a report open in any browser, from one file, without a network?
//
// One template: a title, then headings, paragraphs, tables and figures in the order in which they
// were added. Styles and figures are inside, scripts there are none. All text is escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tailrace/report/figure.h"
#include "tailrace/report/heat_map.h"
#include "tailrace/report/table.h"

namespace tailrace::report {

/// `text` where markup is read, HTML or XML, in attributes too; what is no UTF-8 becomes '?'. What
/// XML 1.0 forbids even escaped is replaced: control characters by spaces, two noncharacters by
/// U+FFFD.
std::string escape_html(std::string_view text);

class HtmlPage {
 public:
  explicit HtmlPage(std::string_view title);

  void add_heading(std::string_view text);
  void add_paragraph(std::string_view text);
  void add_table(const Table& table);
  /// Figures that are added together stand side by side where there is room.
  void add_figures(const std::vector<Figure>& figures);
  void add_heat_maps(const std::vector<HeatMap>& maps);

  std::string text() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace tailrace::report
