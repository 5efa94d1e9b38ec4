#include <ATen/TensorOperators.h>
#include <ATen/ops/one_hot.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "colossal/data/image_batch.h"
#include "colossal/data/score_fields.h"
#include "colossal/engine/score_loss.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/image/mixing.h"
#include "colossal/training/image_inputs.h"
#include "colossal/training/image_task.h"
#include "colossal/tune/methods/image_classification.h"
#include "colossal/tune/methods/reference.h"

namespace colossal::tune {
namespace {

// Trains a model that gives images classes.
class ImageClassification final : public ImageTask {
 public:
  ImageClassification(const Job& job, const ParallelContext& context)
      : ImageTask(job, context, {.labels = true, .classes = models::labels_of(job.model).names}),
        mixing_(mixing_of(job.config.data)) {}

  std::vector<std::string> metrics() const override { return {score_metric(kProblem)}; }
  std::vector<std::string> shown_metrics() const override { return metrics(); }
  void begin(models::Model& model, Engine&) override {
    shown_ = pipelined(model, model_source_of(job()), context(), scores_.head());
  }
  std::vector<report::Picture> pictures(Engine& engine) override;

  HeadLoss loss() const override { return score_loss(kProblem, context()); }

 private:
  static constexpr models::Problem kProblem = models::Problem::single_label;

  image::Mix mix_of(int64_t position) const {
    const nn::PatchEmbeddingOptions& model = *job().model.transformer.patches;
    return image::random_mix(mixing_, {model.height, model.width}, shape().global_batch,
                             static_cast<uint64_t>(job().config.train.seed), position);
  }

  // Returns the positions of a micro-batch and, after them, those of images with which they are
  // mixed and that are not among them.
  std::vector<int64_t> positions_of(const Range& range) const override {
    std::vector<int64_t> positions = positions_in(range);
    if (mixing_.probability == 0) return positions;
    for (int64_t position = range.begin; position < range.end; ++position) {
      const int64_t partner = mix_of(position).partner;
      if (partner < range.begin || partner >= range.end) positions.push_back(partner);
    }
    return positions;
  }

  // Mixes the images of a micro-batch.
  data::Batch training_batch(data::Batch images, const std::vector<int64_t>& positions,
                             const Range& range) const override {
    if (mixing_.probability == 0) return images;
    const int64_t classes = job().model.facts.scores;
    const at::Tensor shares =
        at::one_hot(images.at(data::kTargets).squeeze(1).to(at::kLong), classes).to(at::kDouble);
    data::Batch batch{.sample_ids = positions_in(range), .units = range.size()};
    const at::Tensor pixels = images.at(data::kPixels).narrow(0, 0, range.size()).clone();
    const at::Tensor targets = shares.narrow(0, 0, range.size()).clone();
    for (int64_t row = 0; row < range.size(); ++row) {
      const image::Mix mix = mix_of(positions[row]);
      const auto partner = std::ranges::find(positions, mix.partner) - positions.begin();
      if (partner == row) continue;
      targets[row].copy_(mix.share * shares[row] + (1 - mix.share) * shares[partner]);
      mix_pixels(images.at(data::kPixels), row, partner, mix, pixels[row]);
    }
    batch.set(data::kPixels, pixels);
    batch.set(data::kTargets, targets);
    return batch;
  }

  static void mix_pixels(const at::Tensor& images, int64_t row, int64_t partner,
                         const image::Mix& mix, const at::Tensor& into) {
    if (!mix.box) {
      into.copy_(mix.share * images[row] + (1 - mix.share) * images[partner]);
      return;
    }
    const auto part = [&](const at::Tensor& image) {
      return image.narrow(1, mix.box->top, mix.box->height)
          .narrow(2, mix.box->left, mix.box->width);
    };
    part(into).copy_(part(images[partner]));
  }

  image::MixingOptions mixing_;  // of training images
  // For pictures(): the trained model, whose head collects scores.
  ScoreCollector scores_{[this](models::Model& model, const nn::BlockState& state,
                                const data::Batch& batch, const nn::StepContext& step) {
    return scores_of_rows(model, state, batch, step, context());
  }};
  StagedModel shown_;
};

std::vector<report::Picture> ImageClassification::pictures(Engine& engine) {
  constexpr int64_t kMost = 24, kLargest = int64_t{1} << 18;
  if (!has_validation()) return {};
  const data::ImageSource& source = validation_images();
  const std::vector<int64_t> indices = shown_images(kMost);
  const auto count = std::ssize(indices);
  engine.evaluate(
      {batch_of(indices)}, [] { return false; }, &shown_);
  const std::vector<at::Tensor> found = scores_.take();
  const at::Tensor scores = on_all_ranks(found.empty() ? at::Tensor() : found.front(),
                                         {count, job().model.facts.scores}, /*divided=*/false);
  if (context().rank() != 0) return {};
  const models::Labels labels = models::labels_of(job().model);
  const at::Tensor shares = scores.softmax(-1).cpu();
  std::vector<report::Picture> pictures;
  for (int64_t i = 0; i < count; ++i) {
    const auto given = shares[i].argmax().item<int64_t>();
    const int64_t wanted = source.label(indices[i]).value();
    report::Picture& picture = pictures.emplace_back();
    picture.content = source.read(indices[i]).content;
    picture.is_wrong = given != wanted;
    picture.caption =
        fmt::format("{} {:.0f} %{}", labels.names[given], 100 * shares[i][given].item<double>(),
                    picture.is_wrong ? ", is " + labels.names[wanted] : "");
    if (std::ssize(picture.content) > kLargest) pictures.pop_back();
  }
  return pictures;
}

}  // namespace

std::unique_ptr<TrainingTask> make_image_classification(const Job& job,
                                                        const ParallelContext& context) {
  return std::make_unique<ImageClassification>(job, context);
}

}  // namespace colossal::tune
