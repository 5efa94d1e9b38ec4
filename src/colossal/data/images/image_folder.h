// The images of a folder with one subfolder for each class. Used by open_image_source().
#pragma once

#include <filesystem>
#include <memory>

#include "colossal/data/images/image_source.h"

namespace colossal::data {

// Files are images if their names end in .jpg, .jpeg, .png or .webp, in any case; a warning names
// the first of other files, apart from hidden ones. Images of a class are sorted by folder, then by
// name, as torchvision's ImageFolder sorts them. Throws as open_image_source().
std::unique_ptr<ImageSource> open_image_folder(const std::filesystem::path& folder,
                                               const ImageSourceOptions& options);

// Whether the name of a file ends as those of images do.
bool has_image_ending(std::string_view name);

}  // namespace colossal::data
