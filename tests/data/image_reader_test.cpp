#include "colossal/data/images/image_reader.h"

#include <gmock/gmock.h>

#include "tests/data/image_files.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kImages = 40;

// Images of one colour each, whose red is their number.
std::shared_ptr<const ImageSource> colours(const TextFolder& folder) {
  for (int i = 0; i < kImages; ++i) {
    folder.write(fmt::format("{}/{:02}.png", i % 2 == 0 ? "even" : "odd", i),
                 png_of(static_cast<uint8_t>(i), 100, 200, {4 + i % 3, 5}));
  }
  return open_image_source(std::vector{folder / ""});
}

image::Processor small_processor() {
  return image::Processor({.resize = image::ResizeRule{.size = {2, 3}}, .normalize = std::nullopt});
}

TEST(ImageReader, ReturnsImagesInTheOrderOfTheRequests) {
  TextFolder folder;
  const auto source = colours(folder);
  for (const int threads : {1, 4}) {
    ImageReader reader(source, small_processor(), {.num_threads = threads});
    const std::vector<ImageRequest> requests = {{21, 0}, {3, 1}, {21, 2}, {0, 3}};
    const ImageBatch batch = reader.read(requests);
    ASSERT_EQ(batch.size, (image::ImageSize{2, 3}));
    ASSERT_EQ(std::ssize(batch.pixels), 4 * 3 * 2 * 3);
    for (size_t i = 0; i < requests.size(); ++i) {
      // The even numbers come first.
      const int64_t index = requests[i].index;
      const int64_t red = index < kImages / 2 ? 2 * index : 2 * (index - kImages / 2) + 1;
      EXPECT_EQ(batch.labels[i], index < kImages / 2 ? 0 : 1);
      EXPECT_EQ(batch.texts[i], "");
      for (size_t k = 0; k < 6; ++k) {
        EXPECT_FLOAT_EQ(batch.pixels[18 * i + k], static_cast<float>(red) / 255);
        EXPECT_FLOAT_EQ(batch.pixels[18 * i + 6 + k], 100.0F / 255);
        EXPECT_FLOAT_EQ(batch.pixels[18 * i + 12 + k], 200.0F / 255);
      }
    }
  }
}

TEST(ImageReader, ReadsSeveralBatchesAtOnce) {
  TextFolder folder;
  ImageReader reader(colours(folder), small_processor(), {.num_threads = 3});
  std::vector<ImageReader::Pending> pending;
  for (int64_t i = 0; i + 3 < kImages; ++i) {
    pending.push_back(reader.start(std::vector<ImageRequest>{{i, 0}, {i + 3, 1}}));
  }
  for (int64_t i = 0; i + 3 < kImages; ++i) {
    EXPECT_EQ(pending[static_cast<size_t>(i)].get().pixels,
              reader.read(std::vector<ImageRequest>{{i, 0}, {i + 3, 1}}).pixels);
  }
}

TEST(ImageReader, AugmentsByThePositionAlone) {
  TextFolder folder;
  for (int i = 0; i < 8; ++i) {
    image::Image image = image::Image::of_size({40, 50});
    for (size_t k = 0; k < image.pixels.size(); ++k) {
      image.pixels[k] = static_cast<uint8_t>(k * (7 + static_cast<size_t>(i)) / 11);
    }
    folder.write(fmt::format("a/{}.png", i), image::encode_png(image));
  }
  const std::shared_ptr<const ImageSource> source = open_image_source(std::vector{folder / ""});
  const image::Processor processor({.resize = image::ResizeRule{.size = {16, 16}}});
  const image::AugmentOptions augmentation{.colors = {.brightness = 0.4, .hue = 0.1}};
  const auto read = [&](int threads, uint64_t seed, const std::vector<ImageRequest>& requests) {
    ImageReader reader(source, processor,
                       {.augmentation = augmentation, .seed = seed, .num_threads = threads});
    return reader.read(requests).pixels;
  };
  const std::vector<ImageRequest> requests = {{0, 10}, {1, 11}, {2, 12}, {0, 13}};
  const auto pixels = read(1, 1, requests);
  EXPECT_EQ(read(4, 1, requests), pixels);
  EXPECT_NE(read(1, 2, requests), pixels);
  const size_t each = pixels.size() / 4;
  const auto alone = read(2, 1, {{2, 12}});
  EXPECT_TRUE(std::ranges::equal(alone, std::span(pixels).subspan(2 * each, each)));
  EXPECT_FALSE(std::ranges::equal(std::span(pixels).first(each), std::span(pixels).last(each)));
}

TEST(ImageReader, NamesTheFirstDamagedImage) {
  TextFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(fmt::format("a/{:02}.png", i), png_of(1, 2, 3));
  const std::string first = folder.write("a/04.png", png_of(1, 2, 3).substr(0, 60));
  const std::string second = folder.write("a/11.png", "no image");
  ImageReader reader(open_image_source(std::vector{folder / ""}), small_processor(),
                     {.num_threads = 4});
  std::vector<ImageRequest> requests;
  for (int64_t i = 0; i < 20; ++i) requests.push_back({i, 0});
  EXPECT_THAT(message_of<IoError>([&] { reader.read(requests); }),
              AllOf(HasSubstr(first), HasSubstr("damaged PNG")));
  EXPECT_THAT(message_of<ConfigError>([&] {
                reader.read(std::vector<ImageRequest>{{11, 0}});
              }),
              AllOf(HasSubstr(second), HasSubstr("no image")));
  EXPECT_EQ(reader.read(std::vector<ImageRequest>{{0, 0}}).labels.size(), 1u);
}

TEST(ImageReader, NeedsASizeThatIsTheSameForAllImages) {
  TextFolder folder;
  const auto source = colours(folder);
  const image::Processor processor(
      {.resize = image::ResizeRule{.kind = image::ResizeRule::Kind::shortest_edge}});
  EXPECT_THAT(message_of<ConfigError>([&] { ImageReader(source, processor, {}); }),
              HasSubstr("do_center_crop"));
}

}  // namespace
}  // namespace colossal::data
