// The images in Parquet files, as data sets of the Hugging Face Hub have them. Used by
// open_image_source().
#pragma once

#include <memory>
#include <span>

#include "colossal/data/images/image_source.h"
#include "colossal/data/source_files.h"

namespace colossal::data {

// files: Parquet, each with one column of structures with the image file in "bytes". Other columns
// are as the fields of a row (image_source.h); texts are held in memory. To read an image, the
// images of its whole row group are read, so row groups should be small (those of the Hub have 100
// images); a warning says if they are not. Throws as open_image_source().
std::unique_ptr<ImageSource> open_image_tables(std::span<const SourceFile> files,
                                               const ImageSourceOptions& options);

// Whether a file is Parquet with such a column.
bool has_image_column(const SourceFile& file);

}  // namespace colossal::data
