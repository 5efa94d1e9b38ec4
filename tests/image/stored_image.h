// Arrays that the oracles in Python write: a line with height and width, then the bytes.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "colossal/image/image.h"
#include "colossal/io/file.h"

namespace colossal::image {

struct Stored {
  ImageSize size;
  std::string bytes;
};

inline Stored read_stored(const std::filesystem::path& path) {
  const std::string content = io::read_file(path);
  const size_t end = content.find('\n');
  Stored stored;
  std::istringstream(content.substr(0, end)) >> stored.size.height >> stored.size.width;
  stored.bytes = content.substr(end + 1);
  return stored;
}

inline Image read_image(const std::filesystem::path& path) {
  const Stored stored = read_stored(path);
  return {stored.size.height, stored.size.width, {stored.bytes.begin(), stored.bytes.end()}};
}

// "equal", or where the images differ.
inline std::string difference(const Image& ours, const Image& theirs) {
  if (ours.size() != theirs.size()) {
    return fmt::format("{}x{}, not {}x{}", ours.height, ours.width, theirs.height, theirs.width);
  }
  int64_t count = 0;
  std::string first;
  for (size_t i = 0; i < ours.pixels.size(); ++i) {
    if (ours.pixels[i] == theirs.pixels[i]) continue;
    if (count++ > 0) continue;
    const int64_t pixel = static_cast<int64_t>(i) / kChannels;
    first = fmt::format("channel {} of ({}, {}): {}, not {}", i % kChannels, pixel / ours.width,
                        pixel % ours.width, ours.pixels[i], theirs.pixels[i]);
  }
  return count == 0 ? "equal" : fmt::format("{} values, first {}", count, first);
}

}  // namespace colossal::image
