#include "colossal/image/decode.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "colossal/base/error.h"
#include "colossal/image/orientation.h"

namespace colossal::image {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::string_literals;

// What the function throws says, or nothing thrown.
template <typename Exception, typename Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string png_chunk(const std::string& kind, const std::string& data) {
  const std::string body = kind + data;
  const auto checksum =
      ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<uint32_t>(data.size())) + body +
         big_endian(static_cast<uint32_t>(checksum));
}

std::string png_header(uint32_t height, uint32_t width) {
  return "\x89PNG\r\n\x1a\n" +
         png_chunk("IHDR", big_endian(width) + big_endian(height) + "\x08\x02\0\0\0"s);
}

Image gradient(ImageSize size) {
  Image image = Image::of_size(size);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 7);
  return image;
}

TEST(Decode, ReadsWhatEncodePngWrites) {
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{3, 500}, ImageSize{70, 40}}) {
    const Image image = gradient(size);
    const std::string content = encode_png(image);
    EXPECT_EQ(image_kind(content), ImageKind::png);
    EXPECT_EQ(decode_image(content, "a.png"), image);
    EXPECT_EQ(image_size(content, "a.png"), size);
  }
}

TEST(Decode, WhatIsNoImageIsNamed) {
  const std::pair<std::string, const char*> cases[] = {{"", "is empty"},
                                                       {"text", "no image"},
                                                       {"GIF89a...........", "GIF"},
                                                       {"BM...............", "BMP"},
                                                       {"II*\0............."s, "TIFF"},
                                                       {"\0\0\0 ftypavif....."s, "AVIF"},
                                                       {"RIFF....WAVEfmt ....", "no image"}};
  for (const auto& [content, what] : cases) {
    EXPECT_EQ(image_kind(content), std::nullopt) << what;
    EXPECT_THAT(
        message_of<ConfigError>([&] { decode_image(content, "folder/a.jpg"); }),
        AllOf(HasSubstr("'folder/a.jpg'"), HasSubstr(what), HasSubstr("PNG, JPEG and WebP")));
  }
}

TEST(Decode, TooManyPixelsAreRefusedBeforeTheyAreDecoded) {
  const std::string huge = png_header(20000, 10000) + png_chunk("IDAT", "\x78\x9c");
  const auto message =
      AllOf(HasSubstr("'a.png'"), HasSubstr("10000 x 20000"), HasSubstr("178956970 pixels"));
  EXPECT_THAT(message_of<ConfigError>([&] { decode_image(huge, "a.png"); }), message);
  EXPECT_THAT(message_of<ConfigError>([&] { image_size(huge, "a.png"); }), message);
  // A JPEG's header before its tables and pixels.
  const std::string jpeg =
      "\xff\xd8\xff\xc0\0\x0b\x08\xff\xdc\xff\xdc\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\x3f\0"s;
  EXPECT_THAT(message_of<ConfigError>([&] { decode_image(jpeg, "a.jpg"); }),
              AllOf(HasSubstr("'a.jpg'"), HasSubstr("65500 x 65500")));
}

TEST(Decode, AFileTooSmallForItsPixelsIsRefusedAtOnce) {
  const std::string content =
      png_header(13000, 13000) + png_chunk("IDAT", "\x78\x9c") + png_chunk("IEND", "");
  EXPECT_EQ(image_size(content, "a.png"), (ImageSize{13000, 13000}));
  EXPECT_THAT(message_of<IoError>([&] { decode_image(content, "a.png"); }),
              AllOf(HasSubstr("'a.png'"), HasSubstr("damaged PNG"), HasSubstr("too early")));
}

TEST(Decode, DamageIsToldWithTheDecodersReason) {
  std::string content = encode_png(gradient({30, 30}));
  const size_t pixels = content.find("IDAT") + 40;
  content[pixels] = static_cast<char>(content[pixels] ^ 1);
  EXPECT_THAT(message_of<IoError>([&] { decode_image(content, "a.png"); }),
              AllOf(HasSubstr("'a.png' is a damaged PNG image: "), HasSubstr("IDAT")));
  EXPECT_THAT(message_of<IoError>([] { decode_image("\xff\xd8\xff\xe0", "a.jpg"); }),
              AllOf(HasSubstr("'a.jpg' is a damaged JPEG image: "), HasSubstr("too early")));
  EXPECT_THAT(
      message_of<IoError>([] { decode_image("RIFF\x10\0\0\0WEBPVP8 \0\0\0\0"s, "a.webp"); }),
      AllOf(HasSubstr("'a.webp' is a damaged WebP image: ")));
}

TEST(Decode, EachOrientationIsItsOwnInverseOrThatOfItsCounterpart) {
  const Image image = gradient({5, 8});
  for (int value = 1; value <= 8; ++value) {
    const auto orientation = static_cast<Orientation>(value);
    const Orientation back =
        orientation == Orientation::turn_clockwise          ? Orientation::turn_counterclockwise
        : orientation == Orientation::turn_counterclockwise ? Orientation::turn_clockwise
                                                            : orientation;
    const Image there = turned(image, orientation);
    EXPECT_EQ(there.size(), swaps_sides(orientation) ? (ImageSize{8, 5}) : (ImageSize{5, 8}));
    EXPECT_EQ(there == image, value == 1) << value;
    EXPECT_EQ(turned(there, back), image) << value;
  }
}

TEST(Image, IsCroppedAndFlipped) {
  const Image image = gradient({5, 8});
  const Image part = crop(image, {1, 2, 3, 4});
  EXPECT_EQ(part.size(), (ImageSize{3, 4}));
  EXPECT_EQ(part.row(2)[5], image.row(3)[11]);
  const Image flipped = flip_horizontally(image);
  EXPECT_EQ(flipped.row(2)[1], image.row(2)[22]);
  EXPECT_EQ(flip_horizontally(flipped), image);
  EXPECT_THROW(crop(image, {3, 0, 3, 4}), InternalError);
}

}  // namespace
}  // namespace colossal::image
