#include "tailrace/report/html.h"

#include <fmt/format.h>

#include "tailrace/core/text.h"

namespace tailrace::report {
namespace {

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1f24;background:#fff}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}"
    "div.t{overflow-x:auto}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1rem 0}"
    "th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #d8dde3}"
    "th{border-bottom:2px solid #8a939c;white-space:nowrap}"
    "th.l,td.l{text-align:left}"
    "div.f{display:flex;flex-wrap:wrap;gap:1rem}"
    "div.f svg{max-width:100%;height:auto}"
    "@media (prefers-color-scheme:dark){body{background:#15181c;color:#dfe4ea}"
    "th,td{border-color:#3a4149}div.f svg{background:#fff}}";

/// U+FFFE or U+FFFF begins at `at`.
bool is_noncharacter(std::string_view text, std::size_t at) {
  const std::string_view bytes = text.substr(at, 3);
  return bytes == "\xef\xbf\xbe" || bytes == "\xef\xbf\xbf";
}

}  // namespace

std::string escape_html(std::string_view text) {
  const std::string valid = core::valid_utf8(text);
  std::string out;
  for (std::size_t at = 0; at < valid.size(); ++at) {
    const char c = valid[at];
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (is_noncharacter(valid, at)) {
          out += "\xef\xbf\xbd";  // U+FFFD
          at += 2;
        } else {
          out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    }
  }
  return out;
}

HtmlPage::HtmlPage(std::string_view title) : title_(escape_html(title)) {}

void HtmlPage::add_heading(std::string_view text) {
  body_ += fmt::format("<h2>{}</h2>\n", escape_html(text));
}

void HtmlPage::add_paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", escape_html(text));
}

void HtmlPage::add_table(const Table& table) {
  const auto row = [&](std::string_view tag, auto cell_of) {
    std::string out = "<tr>";
    for (std::size_t c = 0; c < table.columns().size(); ++c) {
      const bool left = table.columns()[c].align == Table::Align::kLeft;
      out += fmt::format("<{0}{1}>{2}</{0}>", tag, left ? " class=\"l\"" : "",
                         escape_html(cell_of(c)));
    }
    return out + "</tr>\n";
  };
  body_ += "<div class=\"t\"><table>\n<thead>";
  body_ += row("th", [&](std::size_t c) { return table.columns()[c].title; });
  body_ += "</thead>\n<tbody>\n";
  for (const auto& cells : table.rows()) {
    body_ += row("td", [&](std::size_t c) { return cells[c]; });
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::add_heat_maps(const std::vector<HeatMap>& maps) {
  body_ += "<div class=\"f\">\n";
  for (const HeatMap& map : maps) body_ += svg(map) + "\n";
  body_ += "</div>\n";
}

void HtmlPage::add_figures(const std::vector<Figure>& figures) {
  body_ += "<div class=\"f\">\n";
  for (const Figure& figure : figures) body_ += svg(figure) + "\n";
  body_ += "</div>\n";
}

std::string HtmlPage::text() const {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n"
      "</html>\n",
      title_, kStyle, body_);
}

}  // namespace tailrace::report
