// The images of files with rows. Used by open_image_source().
#pragma once

#include <memory>
#include <span>

#include "colossal/data/images/image_source.h"
#include "colossal/data/source_files.h"

namespace colossal::data {

// Rows of jsonl files that are not compressed stay on disk, and may have images in them. Rows of
// other files are held in memory, and may have at most 64 KiB. Throws as open_image_source().
std::unique_ptr<ImageSource> open_image_rows(std::span<const SourceFile> files,
                                             const ImageSourceOptions& options);

}  // namespace colossal::data
