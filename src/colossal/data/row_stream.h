// Reads the rows of a file, of any format with rows (file_format.h), as JSON lines: an object for
// each row, with its columns as fields. All readers of rows use this, so that samples may lie in
// any of these formats.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "colossal/data/byte_stream.h"

namespace colossal::data {

struct RowOptions {
  // Read only this column of a table, if the table has it; other columns need not be read from
  // disk. Empty: all columns.
  std::string column = {};
  // The columns of csv and tsv files whose cells may be JSON values other than texts, such as
  // numbers and lists. A cell of another column is always a text.
  std::set<std::string> typed_columns = {};
};

// Opens a file with rows. Of a table, values become JSON as follows: texts, and binary values in
// UTF-8, to strings; numbers, booleans, lists and structures to the same in JSON, missing members
// of a structure left out; missing values, other binary values, and numbers that are not finite, to
// null; all others, such as times, to the text that Arrow prints. In csv and tsv files, an empty
// cell without quotes is null.
//
// Throws IoError, also from read(), if the file cannot be read or is damaged; ConfigError if this
// build cannot read Parquet and Arrow files.
std::unique_ptr<ByteStream> open_rows(const SourceFile& file, const RowOptions& options = {});

// Whether open_rows() changes the bytes of the file. Otherwise it only decompresses them.
bool converts_rows(FileFormat format);

}  // namespace colossal::data
