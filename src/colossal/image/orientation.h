// How an image must be turned to be upright. Cameras store pixels as the sensor lies, and say in
// the file's EXIF data how it was held.
#pragma once

#include <string_view>

#include "colossal/image/decode.h"
#include "colossal/image/image.h"

namespace colossal::image {

// The values of EXIF's tag 0x0112 (CIPA DC-008, 4.6.4). Each says what must be done to the pixels.
enum class Orientation {
  upright = 1,
  flip_left_right = 2,
  turn_half = 3,
  flip_top_bottom = 4,
  transpose = 5,  // mirrored on the diagonal from the top left
  turn_clockwise = 6,
  transverse = 7,  // mirrored on the diagonal from the top right
  turn_counterclockwise = 8,
};

// Returns the orientation in a file's EXIF data, or else in its XMP data, where Pillow finds them:
// JPEG: APP1 segments before the pixels. PNG: the chunk eXIf, and texts with EXIF (as ImageMagick
// writes them) or XMP. WebP: the chunks EXIF and XMP. upright if there is none, or if the data are
// damaged.
Orientation orientation_of(ImageKind kind, std::string_view content);

// Whether turned() exchanges height and width.
bool swaps_sides(Orientation orientation);

// Returns the image turned as the orientation says.
Image turned(Image image, Orientation orientation);

}  // namespace colossal::image
