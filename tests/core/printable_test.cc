#include "tailrace/core/printable.h"

#include <gtest/gtest.h>

#include "tailrace/core/text.h"

namespace tailrace::core {
namespace {

TEST(Printable, WritesOutWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
  EXPECT_EQ(printable("\x7f|\u0080|\u009b|\u009f"), "\\u007f|\\u0080|\\u009b|\\u009f");
  EXPECT_EQ(printable("\u202a\u202e|\u2066\u2069|\u2028"), "\\u202a\\u202e|\\u2066\\u2069|\\u2028");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m")
      << "a terminal of 8-bit characters takes the lone byte for a C1 control";
}

TEST(Printable, LeavesTextAlone) {
  for (const char* text :
       {"", "plain \"text\" \\", "\u00a0é\u00ff", "\u2027\u202f\u2065\u206a", "日本 😀"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, IsAppliedByQuoting) {
  EXPECT_EQ(quoted("a\"\u009b31m\u202e"), "\"a\\\"\\u009b31m\\u202e\"");
}

}  // namespace
}  // namespace tailrace::core
