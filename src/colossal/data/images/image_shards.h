// The images of tar shards. Used by open_image_source().
#pragma once

#include <memory>
#include <span>
#include <string>

#include "colossal/data/images/image_source.h"

namespace colossal::data {

// paths: of the shards, in their order. Throws as open_image_source().
std::unique_ptr<ImageSource> open_image_shards(std::span<const std::string> paths,
                                               const ImageSourceOptions& options);

}  // namespace colossal::data
