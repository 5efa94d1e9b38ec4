// Random changes of training images: a random part in the final size, mirror images, colours; and
// mixtures of two images. Each is a pure function of the options, a seed and the sample's position
// in the run's order of samples (data/sampler.h): it is the same at every layout and after a
// resumption, and new in each epoch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "colossal/image/image.h"
#include "colossal/image/resize.h"

namespace colossal::image {

// "Inception" crop: C. Szegedy et al., "Going deeper with convolutions", 2015, with the algorithm
// of RandomResizedCrop in torchvision.
struct RandomCropOptions {
  double min_scale = 0.08, max_scale = 1.0;             // the part's share of the image's area
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  // the part's width : height
};

// How much colours change, as in ColorJitter of torchvision: brightness, contrast and saturation
// are multiplied by a factor from max(0, 1 - x) to 1 + x; hue is turned by at most x of a full
// turn, 0 <= hue <= 1/2. 0: no change.
struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  bool changes() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};

struct AugmentOptions {
  std::optional<RandomCropOptions> crop = RandomCropOptions{};  // nullopt: the whole image
  double flip_probability = 0.5;
  ColorJitterOptions colors;
};

// Returns a random part of the image, resized to `size`; perhaps its mirror image; with changed
// colours; in this order. Without options.crop the image must have this size already.
Image augment(const Image& image, ImageSize size, Filter filter, const AugmentOptions& options,
              uint64_t seed, uint64_t position);

// Returns the part that RandomResizedCrop takes: area and ratio are drawn, the ratio on a
// logarithmic scale, until the part lies within the image; after 10 draws, the middle of the image
// with the nearest allowed ratio.
PixelBox random_crop_box(ImageSize image, const RandomCropOptions& options, uint64_t seed,
                         uint64_t position);

bool random_flip(double probability, uint64_t seed, uint64_t position);

enum class ColorChange { brightness, contrast, saturation, hue };

// What is done to the colours of a sample.
struct ColorJitter {
  std::array<ColorChange, 4> order;  // in which changes are made
  // Factors; hue: in full turns. Each has no effect if the options do not ask for the change.
  double brightness = 1, contrast = 1, saturation = 1, hue = 0;
};

ColorJitter random_color_jitter(const ColorJitterOptions& options, uint64_t seed,
                                uint64_t position);

// Changes the colours as torchvision.transforms.functional does to images of Pillow, to the bit.
Image change_colors(Image image, const ColorJitter& jitter);

// The single changes. factor >= 0: brightness 0 is black, contrast 0 the mean grey, saturation 0
// grey; 1 no change. turns: -1/2 to 1/2.
Image adjust_brightness(Image image, double factor);
Image adjust_contrast(Image image, double factor);
Image adjust_saturation(Image image, double factor);
Image adjust_hue(Image image, double turns);

}  // namespace colossal::image
