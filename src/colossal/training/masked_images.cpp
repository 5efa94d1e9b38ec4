#include "colossal/training/masked_images.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/data/image_batch.h"
#include "colossal/data/image_masks.h"
#include "colossal/engine/reconstruction_loss.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/image/decode.h"
#include "colossal/job/mask_config.h"
#include "colossal/training/image_task.h"

namespace colossal {
namespace {

constexpr double kWhite = 255, kGrey = 128;

// Returns the values 0 to 255 of pixels that a processor made: [channels, height, width].
at::Tensor colors_of(const at::Tensor& pixels, const image::ProcessorOptions& processor) {
  at::Tensor colors = pixels;
  if (const auto& normalize = processor.normalize) {
    const auto of_channels = [&](const std::array<double, image::kChannels>& values) {
      return at::tensor(values, pixels.options()).view({image::kChannels, 1, 1});
    };
    colors = colors * of_channels(normalize->std) + of_channels(normalize->mean);
  }
  return processor.rescale_factor ? colors / *processor.rescale_factor : colors;
}

// Returns a PNG file of the images, each [channels, height, width] with values 0 to 255, side by
// side.
std::string png_of(const std::vector<at::Tensor>& images) {
  const int64_t height = images[0].size(1), gap = std::max<int64_t>(1, images[0].size(2) / 32);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& image : images) {
    if (!parts.empty()) {
      parts.push_back(at::full({image::kChannels, height, gap}, kWhite, image.options()));
    }
    parts.push_back(image);
  }
  const at::Tensor bytes =
      at::cat(parts, 2).round().clamp(0, 255).to(at::kByte).permute({1, 2, 0}).contiguous();
  image::Image picture = image::Image::of_size({bytes.size(0), bytes.size(1)});
  std::copy_n(bytes.const_data_ptr<uint8_t>(), bytes.numel(), picture.pixels.begin());
  return image::encode_png(picture);
}

class MaskedImages final : public ImageTask {
 public:
  MaskedImages(const Job& job, const ParallelContext& context)
      : ImageTask(job, context, {}), masks_(resolve_masks(job.config.data, patches())) {}

  HeadLoss loss() const override { return reconstruction_loss(patches()); }

  void begin(models::Model& model, Engine&) override {
    const HeadLoss collect = [this](models::Model& shown, const nn::BlockState& state,
                                    const data::Batch&, const nn::StepContext& step) {
      if (!state.output().is_meta()) found_ = of_all_tokens(shown, state, step);
      return LossSum{};
    };
    shown_ = pipelined(model, model_source_of(job()), context(), collect);
  }
  std::vector<report::Picture> pictures(Engine& engine) override;

 private:
  const nn::PatchEmbeddingOptions& patches() const { return *job().model.transformer.patches; }

  data::Batch training_batch(data::Batch images, const std::vector<int64_t>&,
                             const Range&) const override {
    return validation_batch(std::move(images));
  }
  data::Batch validation_batch(data::Batch images) const override {
    data::mask_patches(images, masks_);
    return images;
  }

  // Returns the reconstructions of all patches, with zeros at those that other ranks of sp have:
  // [batch, tokens, channels * patch * patch].
  at::Tensor of_all_tokens(models::Model& model, const nn::BlockState& state,
                           const nn::StepContext& step) const {
    const at::Tensor here = model.pixel_head().pixels(state.output(), step).to(at::kDouble);
    return at::zeros({here.size(0), patches().num_tokens(), here.size(2)}, here.options())
        .index_copy(1, step.tokens().positions, here);
  }

  // pixels, reconstruction: [channels, height, width]; masks: the same shape, bool.
  report::Picture picture_of(const at::Tensor& pixels, const at::Tensor& reconstruction,
                             const at::Tensor& masks) const {
    const at::Tensor original = colors_of(pixels, processor().options());
    const at::Tensor found = colors_of(reconstruction, processor().options());
    const double error = (reconstruction - pixels).abs().masked_select(masks).mean().item<double>();
    return {.content = png_of({original, at::where(masks, at::full_like(original, kGrey), original),
                               at::where(masks, found, original)}),
            .caption = fmt::format("original, masked, reconstructed; error {:.3f}", error)};
  }

  data::ImageMaskOptions masks_;
  // For pictures(): the trained model, whose head sets found_.
  StagedModel shown_;
  at::Tensor found_;
};

std::vector<report::Picture> MaskedImages::pictures(Engine& engine) {
  constexpr int64_t kMost = 8;
  if (!has_validation()) return {};
  const data::Batch batch = batch_of(shown_images(kMost));
  engine.evaluate(
      {batch}, [] { return false; }, &shown_);
  const int64_t pixels_of_patch = patches().channels * patches().patch * patches().patch;
  const at::Tensor all = on_all_ranks(std::exchange(found_, {}),
                                      {batch.rows(), patches().num_tokens(), pixels_of_patch},
                                      /*divided=*/true);
  if (context().rank() != 0) return {};
  const int64_t before = patches().num_prefix_tokens(), count = all.size(1) - before;
  const at::Tensor found = nn::images_of_patches(all.cpu().narrow(1, before, count), patches());
  const at::Tensor masks = nn::images_of_patches(
      batch.at(data::kMasks).unsqueeze(-1).expand({-1, -1, pixels_of_patch}), patches());
  const at::Tensor pixels = batch.at(data::kPixels)
                                .narrow(2, 0, found.size(2))
                                .narrow(3, 0, found.size(3))
                                .to(at::kDouble);
  std::vector<report::Picture> pictures;
  for (int64_t i = 0; i < batch.rows(); ++i) {
    pictures.push_back(picture_of(pixels[i], found[i], masks[i]));
  }
  return pictures;
}

}  // namespace

std::unique_ptr<TrainingTask> make_masked_images(const Job& job, const ParallelContext& context) {
  COLOSSAL_CHECK(job.model.transformer.reconstructs, "a model of family {} without masked patches",
                 job.model.facts.family);
  return std::make_unique<MaskedImages>(job, context);
}

}  // namespace colossal
