// Reads Parquet and Arrow files as JSON lines, by the library Apache Arrow. Used by open_rows().
#pragma once

#include <memory>

#include "colossal/data/arrow_module.h"
#include "colossal/data/byte_stream.h"
#include "colossal/data/row_stream.h"

namespace colossal::data {

// Loads the module that links Arrow (arrow_module.h), which lies beside this library, at the first
// call. Throws ConfigError if there is none, which names the command that installs it, or if the
// file is compressed as a whole; IoError, also from read(), if the file cannot be read.
std::unique_ptr<ByteStream> arrow_as_lines(const SourceFile& file, const RowOptions& options);

// Opens the images of a Parquet file; nullptr if it has no column of images. Throws as
// arrow_as_lines(); the functions of the table throw std::runtime_error.
std::unique_ptr<ImageTable> open_image_table(const SourceFile& file);

}  // namespace colossal::data
