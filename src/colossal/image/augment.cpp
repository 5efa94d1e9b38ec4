#include "colossal/image/augment.h"

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/base/random.h"

namespace colossal::image {
namespace {

constexpr int kCropDraws = 10;

// Returns a number from `low` to `high`. draw: number of the draw of this stream and sample.
double uniform(RandomKey key, uint64_t position, uint64_t draw, double low, double high) {
  return low + (high - low) * random_uniform(key, position, draw);
}

// Returns one of the numbers 0 to count - 1.
int64_t random_index(RandomKey key, uint64_t position, uint64_t draw, int64_t count) {
  const double at = random_uniform(key, position, draw) * static_cast<double>(count);
  return std::min(static_cast<int64_t>(at), count - 1);
}

// Python's round(): halves go to the even number.
int64_t rounded(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

// The middle of the image, as large as the allowed ratios permit.
PixelBox middle_box(ImageSize image, const RandomCropOptions& options) {
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  int64_t height = image.height, width = image.width;
  if (ratio < options.min_ratio) {
    height = rounded(static_cast<double>(width) / options.min_ratio);
  } else if (ratio > options.max_ratio) {
    width = rounded(static_cast<double>(height) * options.max_ratio);
  }
  return {(image.height - height) / 2, (image.width - width) / 2, height, width};
}

// Image.blend() of Pillow: base + factor * (value - base) in float32, cut to a byte.
uint8_t blend(int base, int value, float factor) {
  const float mixed = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return static_cast<uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
}

// Pillow's brightness of a colour (ITU-R 601-2), convert("L").
int luma(const uint8_t* pixel) {
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16;
}

struct Hsv {
  uint8_t hue, saturation, value;
};

// rgb2hsv() of Pillow, including where it computes in float and where in double.
Hsv to_hsv(const uint8_t* pixel) {
  const uint8_t red = pixel[0], green = pixel[1], blue = pixel[2];
  const uint8_t most = std::max({red, green, blue}), least = std::min({red, green, blue});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const float saturation = range / static_cast<float>(most);
  const float from_red = static_cast<float>(most - red) / range;
  const float from_green = static_cast<float>(most - green) / range;
  const float from_blue = static_cast<float>(most - blue) / range;
  float hue;  // in sixths of a turn
  if (red == most) {
    hue = from_blue - from_green;
  } else if (green == most) {
    hue = static_cast<float>(2.0 + from_red - from_blue);
  } else {
    hue = static_cast<float>(4.0 + from_green - from_red);
  }
  // Pillow's fmod(), in which a negative hue does not stay negative.
  const double turns = hue / 6.0 + 1.0;
  hue = static_cast<float>(turns - std::floor(turns));
  const auto to_byte = [](float share) {
    return static_cast<uint8_t>(std::clamp(static_cast<int>(share * 255.0), 0, 255));
  };
  return {to_byte(hue), to_byte(saturation), most};
}

// hsv2rgb() of Pillow.
void to_rgb(const Hsv& hsv, uint8_t* pixel) {
  const uint8_t value = hsv.value;
  if (hsv.saturation == 0) {
    std::fill_n(pixel, kChannels, value);
    return;
  }
  const double sixths = static_cast<float>(hsv.hue) * 6.0 / 255.0;
  const int sector = static_cast<int>(std::floor(sixths));
  const auto fraction = static_cast<float>(sixths - static_cast<float>(sector));
  const auto saturation = static_cast<float>(static_cast<float>(hsv.saturation) / 255.0);
  const auto shade = [&](double share) {
    const int level = static_cast<int>(std::round(static_cast<float>(value) * (1.0 - share)));
    return static_cast<uint8_t>(std::clamp(level, 0, 255));
  };
  const uint8_t low = shade(saturation);
  const uint8_t falling = shade(saturation * fraction);
  const uint8_t rising = shade(saturation * (1.0 - fraction));
  const std::array<std::array<uint8_t, 3>, 6> sectors = {{{value, rising, low},
                                                          {falling, value, low},
                                                          {low, value, rising},
                                                          {low, falling, value},
                                                          {rising, low, value},
                                                          {value, low, falling}}};
  const auto& color = sectors[static_cast<size_t>(sector % 6)];
  std::copy(color.begin(), color.end(), pixel);
}

template <typename Change>
void for_pixels(Image& image, const Change& change) {
  for (size_t i = 0; i < image.pixels.size(); i += kChannels) change(image.pixels.data() + i);
}

int mean_luma(Image& image) {
  int64_t sum = 0;
  for_pixels(image, [&](const uint8_t* pixel) { sum += luma(pixel); });
  const auto count = static_cast<double>(image.height * image.width);
  return static_cast<int>(static_cast<double>(sum) / count + 0.5);
}

}  // namespace

PixelBox random_crop_box(ImageSize image, const RandomCropOptions& options, uint64_t seed,
                         uint64_t position) {
  const RandomKey key = random_key(seed, 0, "image crop");
  const auto area = static_cast<double>(image.height * image.width);
  const double min_log = std::log(options.min_ratio), max_log = std::log(options.max_ratio);
  for (uint64_t draw = 0; draw < kCropDraws; ++draw) {
    const double target =
        area * uniform(key, position, 4 * draw, options.min_scale, options.max_scale);
    const double ratio = std::exp(uniform(key, position, 4 * draw + 1, min_log, max_log));
    const int64_t width = rounded(std::sqrt(target * ratio));
    const int64_t height = rounded(std::sqrt(target / ratio));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    return {random_index(key, position, 4 * draw + 2, image.height - height + 1),
            random_index(key, position, 4 * draw + 3, image.width - width + 1), height, width};
  }
  return middle_box(image, options);
}

bool random_flip(double probability, uint64_t seed, uint64_t position) {
  return random_uniform(random_key(seed, 0, "image flip"), position, 0) < probability;
}

ColorJitter random_color_jitter(const ColorJitterOptions& options, uint64_t seed,
                                uint64_t position) {
  const RandomKey key = random_key(seed, 0, "image colors");
  ColorJitter jitter{.order = {ColorChange::brightness, ColorChange::contrast,
                               ColorChange::saturation, ColorChange::hue}};
  // Fisher and Yates' shuffle.
  for (int64_t i = 3; i > 0; --i) {
    const int64_t other = random_index(key, position, static_cast<uint64_t>(3 - i), i + 1);
    std::swap(jitter.order[static_cast<size_t>(i)], jitter.order[static_cast<size_t>(other)]);
  }
  const auto factor = [&](uint64_t draw, double strength) {
    return uniform(key, position, draw, std::max(0.0, 1 - strength), 1 + strength);
  };
  if (options.brightness > 0) jitter.brightness = factor(3, options.brightness);
  if (options.contrast > 0) jitter.contrast = factor(4, options.contrast);
  if (options.saturation > 0) jitter.saturation = factor(5, options.saturation);
  if (options.hue > 0) jitter.hue = uniform(key, position, 6, -options.hue, options.hue);
  return jitter;
}

Image adjust_brightness(Image image, double factor) {
  for (uint8_t& value : image.pixels) value = blend(0, value, static_cast<float>(factor));
  return image;
}

Image adjust_contrast(Image image, double factor) {
  const int mean = mean_luma(image);
  for (uint8_t& value : image.pixels) value = blend(mean, value, static_cast<float>(factor));
  return image;
}

Image adjust_saturation(Image image, double factor) {
  for_pixels(image, [&](uint8_t* pixel) {
    const int grey = luma(pixel);
    for (int c = 0; c < kChannels; ++c) {
      pixel[c] = blend(grey, pixel[c], static_cast<float>(factor));
    }
  });
  return image;
}

Image adjust_hue(Image image, double turns) {
  const auto shift = static_cast<uint8_t>(static_cast<int32_t>(turns * 255));
  for_pixels(image, [&](uint8_t* pixel) {
    Hsv hsv = to_hsv(pixel);
    hsv.hue = static_cast<uint8_t>(hsv.hue + shift);
    to_rgb(hsv, pixel);
  });
  return image;
}

Image change_colors(Image image, const ColorJitter& jitter) {
  for (const ColorChange change : jitter.order) {
    switch (change) {
      case ColorChange::brightness:
        if (jitter.brightness != 1) image = adjust_brightness(std::move(image), jitter.brightness);
        break;
      case ColorChange::contrast:
        if (jitter.contrast != 1) image = adjust_contrast(std::move(image), jitter.contrast);
        break;
      case ColorChange::saturation:
        if (jitter.saturation != 1) image = adjust_saturation(std::move(image), jitter.saturation);
        break;
      case ColorChange::hue:
        if (jitter.hue != 0) image = adjust_hue(std::move(image), jitter.hue);
    }
  }
  return image;
}

Image augment(const Image& image, ImageSize size, Filter filter, const AugmentOptions& options,
              uint64_t seed, uint64_t position) {
  Image result =
      options.crop
          ? resize(crop(image, random_crop_box(image.size(), *options.crop, seed, position)), size,
                   filter)
          : image;
  COLOSSAL_CHECK(result.size() == size, "an image of {} x {} instead of {} x {} pixels",
                 result.height, result.width, size.height, size.width);
  if (random_flip(options.flip_probability, seed, position)) result = flip_horizontally(result);
  if (!options.colors.changes()) return result;
  return change_colors(std::move(result), random_color_jitter(options.colors, seed, position));
}

}  // namespace colossal::image
