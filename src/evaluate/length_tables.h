// Which rows does a table of lengths without text hold?
//
// Two published shapes: a column per temperature ("alpaca_id", "L_t0.7": answers of one model cut
// at 512 tokens), and a column per model after the prompt's plain features ("prompt_tokens", …,
// "f_short").
#pragma once

#include <string>

#include "evaluate/row_maker.h"

namespace tailrace::evaluate {

/// Errors: those of dataset::CsvReader; kInvalidArgument for a cell that is no length or a header
/// of another shape.
Result<void> read_length_table(const std::string& path, RowMaker& rows);

}  // namespace tailrace::evaluate
