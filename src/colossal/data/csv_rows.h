// Reads a csv or tsv file as JSON lines. Used by open_rows().
#pragma once

#include <memory>

#include "colossal/data/byte_stream.h"
#include "colossal/data/row_stream.h"

namespace colossal::data {

// content: of a file as RFC 4180 describes it, with the separator between cells. Its first record
// names the columns. Quoted cells may contain separators, line feeds and, twice each, quotes. Empty
// lines are skipped; missing cells at the end of a record are null. path: for messages. read()
// throws IoError if a record has more cells than there are columns, if two columns have the same
// name, or if the file ends within quotes.
std::unique_ptr<ByteStream> csv_as_lines(std::unique_ptr<ByteStream> content, char separator,
                                         const RowOptions& options, const std::string& path);

}  // namespace colossal::data
