// Image files without labels, each given by its path. Used by open_image_source().
#pragma once

#include <memory>
#include <span>
#include <string>

#include "colossal/data/images/image_source.h"

namespace colossal::data {

// paths: at least one. Throws IoError if a file's size cannot be read.
std::unique_ptr<ImageSource> open_image_files(std::span<const std::string> paths);

}  // namespace colossal::data
