#include "colossal/image/augment.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "colossal/io/json.h"
#include "tests/image/stored_image.h"
#include "tests/support/temporary_directory.h"

namespace colossal::image {
namespace {

constexpr uint64_t kDraws = 20000;

// At 0.05, 0.10 ... 0.95.
std::vector<double> quantiles(std::vector<double> values) {
  std::ranges::sort(values);
  std::vector<double> found;
  for (int i = 1; i <= 19; ++i) {
    const double at = 0.05 * i * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(at);
    found.push_back(values[below] +
                    (at - static_cast<double>(below)) * (values[below + 1] - values[below]));
  }
  return found;
}

// Both are quantiles of as many draws; a quantile's error is about 0.5 / sqrt(kDraws) of the range.
void expect_near(const std::vector<double>& ours, const nlohmann::json& theirs, double range,
                 const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i].get<double>(), 0.025 * range) << what << " quantile " << i;
  }
}

class AugmentOracle : public testing::Test {
 protected:
  void SetUp() override {
    const std::string command =
        fmt::format("'{0}/.venv/bin/python' '{0}/tests/image/augment_oracle.py' '{1}'",
                    COLOSSAL_TEST_SOURCE_DIR, folder_.path().string());
    ASSERT_EQ(std::system(command.c_str()), 0) << "the Python side failed";
    cases_ = io::read_json(path("cases.json"));
  }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  void compare_changes() const;
  void compare_crops() const;
  void compare_fallbacks() const;
  void compare_jitter() const;

  test::TemporaryDirectory folder_;
  nlohmann::json cases_;
};

void AugmentOracle::compare_changes() const {
  const auto& changes = cases_["changes"];
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto& fields = changes[i];
    const Image source =
        read_image(path(fmt::format("source_{}.rgb", fields["source"].get<int>())));
    const auto factors = fields["factors"].get<std::vector<double>>();
    const Image singles[] = {adjust_brightness(source, factors[0]),
                             adjust_contrast(source, factors[1]),
                             adjust_saturation(source, factors[2]), adjust_hue(source, factors[3])};
    for (size_t change = 0; change < 4; ++change) {
      EXPECT_EQ(
          difference(singles[change], read_image(path(fmt::format("single_{}_{}.rgb", change, i)))),
          "equal")
          << "change " << change << " by " << factors[change];
    }
    ColorJitter jitter{.brightness = factors[0],
                       .contrast = factors[1],
                       .saturation = factors[2],
                       .hue = factors[3]};
    for (size_t k = 0; k < 4; ++k) {
      jitter.order[k] = static_cast<ColorChange>(fields["order"][k].get<int>());
    }
    EXPECT_EQ(
        difference(change_colors(source, jitter), read_image(path(fmt::format("all_{}.rgb", i)))),
        "equal")
        << fields.dump();
  }
  EXPECT_EQ(changes.size(), 160u);
}

void AugmentOracle::compare_crops() const {
  for (const auto& fields : cases_["crops"]) {
    const ImageSize size{fields["height"], fields["width"]};
    const RandomCropOptions options{fields["scale"][0], fields["scale"][1], fields["ratio"][0],
                                    fields["ratio"][1]};
    const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
    std::vector<double> area, shape, top, left;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const PixelBox box = random_crop_box(size, options, 1, i);
      const auto high = static_cast<double>(box.height), wide = static_cast<double>(box.width);
      area.push_back(high * wide / (height * width));
      shape.push_back(std::log(wide / high));
      top.push_back((static_cast<double>(box.top) + high / 2) / height);
      left.push_back((static_cast<double>(box.left) + wide / 2) / width);
    }
    expect_near(quantiles(area), fields["area"], 1, "area");
    expect_near(quantiles(shape), fields["shape"], std::log(options.max_ratio / options.min_ratio),
                "shape");
    expect_near(quantiles(top), fields["top"], 1, "top");
    expect_near(quantiles(left), fields["left"], 1, "left");
  }
}

void AugmentOracle::compare_fallbacks() const {
  for (const auto& fields : cases_["fallbacks"]) {
    const RandomCropOptions options{1.5, 1.6, fields["ratio"][0], fields["ratio"][1]};
    const auto& box = fields["box"];
    EXPECT_EQ(random_crop_box({fields["height"], fields["width"]}, options, 1, 2),
              (PixelBox{box[0], box[1], box[2], box[3]}))
        << fields.dump();
  }
  EXPECT_EQ(cases_["fallbacks"].size(), 5u);
}

void AugmentOracle::compare_jitter() const {
  const ColorJitterOptions options{0.4, 1.5, 0.3, 0.2};
  std::vector<double> factors[4];
  std::map<std::vector<ColorChange>, int> orders;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const ColorJitter jitter = random_color_jitter(options, 1, i);
    factors[0].push_back(jitter.brightness);
    factors[1].push_back(jitter.contrast);
    factors[2].push_back(jitter.saturation);
    factors[3].push_back(jitter.hue);
    ++orders[{jitter.order.begin(), jitter.order.end()}];
  }
  const double ranges[] = {0.8, 2.5, 0.6, 0.4};
  for (size_t k = 0; k < 4; ++k) {
    expect_near(quantiles(factors[k]), cases_["jitter"]["factors"][k], ranges[k],
                fmt::format("factor {}", k));
  }
  // All orders, each as often: the standard deviation of a count is 28.
  EXPECT_EQ(orders.size(), 24u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, kDraws / 24.0, 150);
}

TEST_F(AugmentOracle, EqualsTorchvision) {
  compare_changes();
  compare_crops();
  compare_fallbacks();
  compare_jitter();
}

Image noise(ImageSize size) {
  Image image = Image::of_size(size);
  uint32_t state = 1;
  for (uint8_t& value : image.pixels) {
    state = state * 1664525 + 1013904223;
    value = static_cast<uint8_t>(state >> 24);
  }
  return image;
}

TEST(Augment, IsAFunctionOfSeedAndPosition) {
  const Image image = noise({50, 70});
  const AugmentOptions options{
      .colors = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}};
  const auto result = [&](uint64_t seed, uint64_t position) {
    return augment(image, {32, 24}, Filter::bicubic, options, seed, position);
  };
  const Image one = result(1, 5);
  EXPECT_EQ(one.size(), (ImageSize{32, 24}));
  EXPECT_EQ(result(1, 5), one);
  EXPECT_FALSE(result(1, 6) == one);
  EXPECT_FALSE(result(2, 5) == one);
}

TEST(Augment, IsTheCropTheFlipAndTheColoursInThisOrder) {
  const Image image = noise({50, 70});
  const AugmentOptions options{.flip_probability = 0.5, .colors = {.contrast = 0.9}};
  int flips = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    const PixelBox box = random_crop_box(image.size(), *options.crop, 3, i);
    Image expected = resize(crop(image, box), {20, 30}, Filter::bilinear);
    if (random_flip(0.5, 3, i)) {
      expected = flip_horizontally(expected);
      ++flips;
    }
    expected = change_colors(expected, random_color_jitter(options.colors, 3, i));
    EXPECT_EQ(augment(image, {20, 30}, Filter::bilinear, options, 3, i), expected);
  }
  EXPECT_GT(flips, 3);
  EXPECT_LT(flips, 17);
}

TEST(Augment, FlipsAsOftenAsAsked) {
  for (const double probability : {0.0, 0.3, 1.0}) {
    int flips = 0;
    for (uint64_t i = 0; i < kDraws; ++i) flips += random_flip(probability, 1, i);
    EXPECT_NEAR(flips, probability * kDraws, probability == 0.3 ? 260 : 0);  // 4 deviations
  }
}

TEST(Augment, WithoutChangesOfColoursKeepsThem) {
  const ColorJitter jitter = random_color_jitter({}, 1, 1);
  const Image image = noise({5, 7});
  EXPECT_EQ(change_colors(image, jitter), image);
}

}  // namespace
}  // namespace colossal::image
