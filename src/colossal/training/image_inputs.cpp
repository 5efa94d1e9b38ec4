#include "colossal/training/image_inputs.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/data/image_batch.h"
#include "colossal/data/score_fields.h"

namespace colossal {

image::Processor processor_of(const std::string& folder, const nn::PatchEmbeddingOptions& model) {
  const image::ImageSize wanted{model.height, model.width};
  if (model.channels != image::kChannels) {
    throw ConfigError(fmt::format(
        "num_channels = {}: images are read with {} channels (red, green, blue); use such a model",
        model.channels, image::kChannels));
  }
  if (folder.empty() || !image::has_processor(folder)) {
    return image::Processor({.resize = image::ResizeRule{.size = wanted}});
  }
  image::Processor processor = image::Processor::from_folder(folder);
  const auto made = processor.output_size();
  if (made != wanted) {
    throw ConfigError(fmt::format(
        "model.path = \"{}\": its processor makes images of {}, but the model reads {} x {} pixels",
        folder, made ? fmt::format("{} x {} pixels", made->height, made->width) : "different sizes",
        wanted.height, wanted.width));
  }
  return processor;
}

data::Batch image_batch(data::ImageBatch images, std::vector<int64_t> sample_ids) {
  const auto rows = std::ssize(sample_ids);
  data::Batch batch{.sample_ids = std::move(sample_ids), .units = rows};
  const std::vector<int64_t> shape{rows, image::kChannels, images.size.height, images.size.width};
  const auto pixels = std::make_shared<std::vector<float>>(std::move(images.pixels));
  batch.set(data::kPixels, at::from_blob(
                               pixels->data(), shape, [pixels](void*) {}, at::kFloat));
  if (rows == 0 || !images.labels.front()) return batch;
  const at::Tensor targets = at::empty({rows, 1}, at::kDouble);
  auto target = targets.accessor<double, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    const std::optional<int64_t> label = images.labels[static_cast<size_t>(row)];
    COLOSSAL_CHECK(label.has_value(), "image {} of a batch has no label, others have", row);
    target[row][0] = static_cast<double>(*label);
  }
  batch.set(data::kTargets, targets);
  return batch;
}

std::optional<image::AugmentOptions> augmentation_of(const DataConfig& data) {
  image::AugmentOptions options{.crop = std::nullopt, .flip_probability = 0};
  bool any = false;
  for (const std::string& name : data.augment) {
    if (name == "none" || name == "mixup" || name == "cutmix") continue;
    any = true;
    if (name == "random_crop") {
      options.crop = image::RandomCropOptions{};
    } else if (name == "flip") {
      options.flip_probability = 0.5;
    } else if (name == "color_jitter") {
      options.colors = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
    } else {
      throw ConfigError(
          fmt::format("data.augment = \"{}\": unknown; available: none, random_crop, flip, "
                      "color_jitter, mixup, cutmix",
                      name));
    }
  }
  return any ? std::optional(options) : std::nullopt;
}

image::MixingOptions mixing_of(const DataConfig& data) {
  const auto asks_for = [&](const char* name) {
    return std::ranges::count(data.augment, name) > 0;
  };
  image::MixingOptions options{.mixup_alpha = asks_for("mixup") ? 0.8 : 0,
                               .cutmix_alpha = asks_for("cutmix") ? 1.0 : 0};
  if (options.mixup_alpha == 0 && options.cutmix_alpha == 0) options.probability = 0;
  return options;
}

}  // namespace colossal
