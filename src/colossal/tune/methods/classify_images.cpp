#include <ATen/TensorOperators.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/comm/group.h"
#include "colossal/data/image_batch.h"
#include "colossal/data/images/image_reader.h"
#include "colossal/data/sampler.h"
#include "colossal/data/score_fields.h"
#include "colossal/engine/score_loss.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/training/agreement.h"
#include "colossal/training/training_data.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/methods/tasks.h"
#include "colossal/tune/samples/images.h"

namespace colossal::tune {
namespace {

// Trains a model that gives images classes.
class ImageClassification final : public TrainingTask {
 public:
  ImageClassification(const Job& job, const ParallelContext& context)
      : job_(job),
        context_(context),
        shape_(batch_shape(job, context)),
        processor_(processor_of(job.config.model.path, *job.model.transformer.patches)),
        mixing_(mixing_of(job.config.data)),
        train_(open("data.train", job.config.data.train)),
        order_(train_->source().size(), static_cast<uint64_t>(job.config.data.seed)) {
    if (!job.config.data.validation.empty()) {
      validation_ = open("data.validation", job.config.data.validation);
    }
    require_agreement({{"data.train", train_->source().fingerprint()},
                       {"data.validation", validation_contents()}},
                      context.world_group());
  }

  SavedModel saved_model() const override {
    return describe_saved_image_model(job_, processor_.to_json());
  }
  bool has_validation() const override { return validation_ != nullptr; }

  data::BatchLoader training_loader(int64_t steps_done) const override {
    return data::BatchLoader([this](int64_t step) { return read_training_step(step); }, steps_done,
                             job_.config.train.steps);
  }
  data::BatchLoader validation_loader() const override {
    return data::BatchLoader([this](int64_t step) { return read_validation_step(step); }, 0,
                             num_validation_steps());
  }
  int64_t num_validation_steps() const override {
    return data::num_evaluation_steps(shape_, validation_->source().size());
  }

  nlohmann::json state() const override {
    nlohmann::json state{{"images", train_->source().size()},
                         {"contents", train_->source().fingerprint()}};
    if (validation_) state["validation_contents"] = validation_contents();
    return state;
  }
  void check_resumed(const nlohmann::json& saved) const override {
    if (context_.rank() != 0) return;  // all ranks have the same state
    const nlohmann::json here = state();
    for (const auto& [field, setting] :
         {std::pair{"contents", "data.train"}, {"validation_contents", "data.validation"}}) {
      if (!saved.contains(field) || saved[field] == here.value(field, nlohmann::json())) continue;
      log::warn("{}: the images have changed since this checkpoint", setting);
    }
  }

  std::vector<std::string> metrics() const override { return {score_metric(kProblem)}; }
  std::vector<std::string> shown_metrics() const override { return metrics(); }
  void begin(models::LanguageModel& model, Engine&) override {
    shown_ = pipelined(model, model_source_of(job_), context_, scores_.head());
  }
  std::vector<report::Picture> pictures(Engine& engine) override;

  HeadLoss loss_to_record() const override { return loss(); }
  HeadLoss loss() const override { return score_loss(kProblem, context_); }

 private:
  static constexpr models::Problem kProblem = models::Problem::single_label;

  std::string validation_contents() const {
    return validation_ ? validation_->source().fingerprint() : "none";
  }

  std::unique_ptr<data::ImageReader> open(const char* setting,
                                          const std::vector<std::string>& patterns) const {
    const bool trains = std::string_view(setting) == "data.train";
    std::shared_ptr<const data::ImageSource> source = data::open_image_source(
        patterns, {.setting = setting, .classes = models::labels_of(job_.model).names});
    for (int64_t i = 0; i < source->size(); ++i) {
      if (source->label(i)) continue;
      throw ConfigError(fmt::format("{}: '{}' has no label", setting, source->name(i)));
    }
    log::info("{}: {} images of {} classes", setting, format_count(source->size()),
              format_count(std::ssize(source->classes())));
    return std::make_unique<data::ImageReader>(
        std::move(source), processor_,
        data::ImageReaderOptions{
            .augmentation = trains ? augmentation_of(job_.config.data) : std::nullopt,
            .seed = static_cast<uint64_t>(job_.config.train.seed),
            .num_threads = job_.threads});
  }

  // Starts to read the images at these positions. index_at: index in the source of the image at a
  // position.
  template <typename IndexAt>
  static data::ImageReader::Pending start(data::ImageReader& reader,
                                          const std::vector<int64_t>& positions,
                                          const IndexAt& index_at) {
    std::vector<data::ImageRequest> requests;
    for (const int64_t position : positions) {
      requests.push_back({index_at(position), static_cast<uint64_t>(position)});
    }
    return reader.start(requests);
  }

  static std::vector<int64_t> positions_in(const Range& range) {
    std::vector<int64_t> positions(range.size());
    std::iota(positions.begin(), positions.end(), range.begin);
    return positions;
  }

  image::Mix mix_of(int64_t position) const {
    return image::random_mix(mixing_, train_->size(), shape_.global_batch,
                             static_cast<uint64_t>(job_.config.train.seed), position);
  }

  // Returns the positions of a micro-batch and, after them, those of images with which they are
  // mixed and that are not among them.
  std::vector<int64_t> with_partners(const Range& range) const {
    std::vector<int64_t> positions = positions_in(range);
    for (int64_t position = range.begin; position < range.end; ++position) {
      const int64_t partner = mix_of(position).partner;
      if (partner < range.begin || partner >= range.end) positions.push_back(partner);
    }
    return positions;
  }

  // Mixes the images of a micro-batch. images: a batch of with_partners(range).
  data::Batch mixed(const data::Batch& images, const std::vector<int64_t>& positions,
                    const Range& range) const {
    const int64_t classes = job_.model.facts.scores;
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

  std::vector<data::Batch> read_training_step(int64_t step) const {
    const std::vector<Range> ranges = data::training_micro_batches(shape_, step);
    const bool mixes = mixing_.probability > 0;
    std::vector<std::vector<int64_t>> positions;
    std::vector<data::ImageReader::Pending> pending;
    for (const Range& range : ranges) {
      positions.push_back(mixes ? with_partners(range) : positions_in(range));
      pending.push_back(start(*train_, positions.back(),
                              [this](int64_t position) { return order_.sample_at(position); }));
    }
    std::vector<data::Batch> batches;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const data::Batch images = image_batch(pending[i].get(), positions[i]);
      batches.push_back(mixes ? mixed(images, positions[i], ranges[i]) : images);
    }
    return batches;
  }

  std::vector<data::Batch> read_validation_step(int64_t step) const {
    const int64_t size = validation_->source().size();
    std::vector<data::Batch> batches;
    for (const Range& range : data::evaluation_micro_batches(shape_, size, step)) {
      const std::vector<int64_t> indices = positions_in(range);
      batches.push_back(image_batch(
          start(*validation_, indices, [](int64_t index) { return index; }).get(), indices));
    }
    return batches;
  }

  const Job& job_;
  const ParallelContext& context_;
  data::BatchShape shape_;
  image::Processor processor_;
  image::MixingOptions mixing_;  // of training images
  std::unique_ptr<data::ImageReader> train_;
  std::unique_ptr<data::ImageReader> validation_;  // null: none
  data::SampleOrder order_;
  // For pictures(): the trained model, whose head collects scores.
  ScoreCollector scores_{[this](models::LanguageModel& model, const nn::BlockState& state,
                                const data::Batch& batch, const nn::StepContext& step) {
    return scores_of_rows(model, state, batch, step, context_);
  }};
  StagedModel shown_;
};

// All replicas compute the same images; one of the ranks with the last stage tells the others.
std::vector<report::Picture> ImageClassification::pictures(Engine& engine) {
  constexpr int64_t kMost = 24, kLargest = int64_t{1} << 18;
  if (!validation_) return {};
  const data::ImageSource& source = validation_->source();
  const int64_t count = std::min(kMost, source.size());
  std::vector<int64_t> indices(count);
  for (int64_t i = 0; i < count; ++i) indices[i] = i * source.size() / count;
  engine.evaluate(
      {image_batch(start(*validation_, indices, std::identity()).get(), indices)},
      [] { return false; }, &shown_);
  const std::vector<at::Tensor> found = scores_.take();
  const Strategy& strategy = context_.strategy();
  const bool tells = context_.holds_stage(strategy.num_stages() - 1) &&
                     context_.coordinate(Axis::dp) == 0 && context_.coordinate(Axis::sp) == 0 &&
                     context_.coordinate(Axis::tp) == 0;
  at::Tensor scores = at::zeros({count, job_.model.facts.scores},
                                at::TensorOptions(at::kDouble).device(context_.device()));
  if (tells) scores.copy_(found.front());
  comm::all_reduce(scores, context_.world_group(), comm::Reason::metrics);
  if (context_.rank() != 0) return {};
  const models::Labels labels = models::labels_of(job_.model);
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

std::unique_ptr<TrainingTask> make_classify_images(const Job& job, const ParallelContext& context) {
  return std::make_unique<ImageClassification>(job, context);
}

}  // namespace colossal::tune
