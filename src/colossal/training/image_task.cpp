#include "colossal/training/image_task.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/comm/group.h"
#include "colossal/training/agreement.h"
#include "colossal/training/image_inputs.h"
#include "colossal/training/training_data.h"

namespace colossal {
namespace {

// Starts to read the images at these positions. index_at: index in the source of the image at a
// position.
template <typename IndexAt>
data::ImageReader::Pending start(data::ImageReader& reader, const std::vector<int64_t>& positions,
                                 const IndexAt& index_at) {
  std::vector<data::ImageRequest> requests;
  for (const int64_t position : positions) {
    requests.push_back({index_at(position), static_cast<uint64_t>(position)});
  }
  return reader.start(requests);
}

}  // namespace

ImageTask::ImageTask(const Job& job, const ParallelContext& context, const Options& options)
    : job_(job),
      context_(context),
      shape_(batch_shape(job, context)),
      processor_(processor_of(job.config.model.path, *job.model.transformer.patches)),
      labels_(options.labels),
      train_(open("data.train", job.config.data.train, options)),
      order_(train_->source().size(), static_cast<uint64_t>(job.config.data.seed)) {
  if (!job.config.data.validation.empty()) {
    validation_ = open("data.validation", job.config.data.validation, options);
  }
  require_agreement(
      {{"data.train", train_->source().fingerprint()}, {"data.validation", validation_contents()}},
      context.world_group());
}

std::string ImageTask::validation_contents() const {
  return validation_ ? validation_->source().fingerprint() : "none";
}

std::unique_ptr<data::ImageReader> ImageTask::open(const char* setting,
                                                   const std::vector<std::string>& patterns,
                                                   const Options& options) const {
  const bool trains = std::string_view(setting) == "data.train";
  std::shared_ptr<const data::ImageSource> source = data::open_image_source(
      patterns,
      {.setting = setting, .classes = options.classes, .folder_has_classes = options.labels});
  for (int64_t i = 0; options.labels && i < source->size(); ++i) {
    if (source->label(i)) continue;
    throw ConfigError(fmt::format("{}: '{}' has no label", setting, source->name(i)));
  }
  log::info("{}: {} images{}", setting, format_count(source->size()),
            options.labels
                ? fmt::format(" of {} classes", format_count(std::ssize(source->classes())))
                : "");
  return std::make_unique<data::ImageReader>(
      std::move(source), processor_,
      data::ImageReaderOptions{
          .augmentation = trains ? augmentation_of(job_.config.data) : std::nullopt,
          .seed = static_cast<uint64_t>(job_.config.train.seed),
          .needs_texts = options.texts,
          .num_threads = job_.threads});
}

SavedModel ImageTask::saved_model() const {
  return describe_saved_image_model(job_, processor_.to_json());
}

data::BatchLoader ImageTask::training_loader(int64_t steps_done) const {
  return data::BatchLoader([this](int64_t step) { return read_training_step(step); }, steps_done,
                           job_.config.train.steps);
}

data::BatchLoader ImageTask::validation_loader() const {
  return data::BatchLoader([this](int64_t step) { return read_validation_step(step); }, 0,
                           num_validation_steps());
}

int64_t ImageTask::num_validation_steps() const {
  return data::num_evaluation_steps(shape_, validation_->source().size());
}

nlohmann::json ImageTask::state() const {
  nlohmann::json state{{"images", train_->source().size()},
                       {"contents", train_->source().fingerprint()}};
  if (validation_) state["validation_contents"] = validation_contents();
  return state;
}

void ImageTask::check_resumed(const nlohmann::json& saved) const {
  if (context_.rank() != 0) return;  // all ranks have the same state
  const nlohmann::json here = state();
  for (const auto& [field, setting] :
       {std::pair{"contents", "data.train"}, {"validation_contents", "data.validation"}}) {
    if (!saved.contains(field) || saved[field] == here.value(field, nlohmann::json())) continue;
    log::warn("{}: the images have changed since this checkpoint", setting);
  }
}

std::vector<int64_t> ImageTask::positions_in(const Range& range) {
  std::vector<int64_t> positions(range.size());
  std::iota(positions.begin(), positions.end(), range.begin);
  return positions;
}

std::vector<int64_t> ImageTask::positions_of(const Range& range) const {
  return positions_in(range);
}

data::Batch ImageTask::training_batch(data::Batch images, const std::vector<int64_t>&,
                                      const Range&) const {
  return images;
}

data::Batch ImageTask::batch_from(data::ImageReader::Pending& pending,
                                  const std::vector<int64_t>& sample_ids) const {
  return batch_of_images(pending.get(), sample_ids);
}

data::Batch ImageTask::batch_of_images(data::ImageBatch images,
                                       const std::vector<int64_t>& sample_ids) const {
  if (!labels_) std::ranges::fill(images.labels, std::nullopt);
  return image_batch(std::move(images), sample_ids);
}

std::vector<data::Batch> ImageTask::read_training_step(int64_t step) const {
  const std::vector<Range> ranges = data::training_micro_batches(shape_, step);
  std::vector<std::vector<int64_t>> positions;
  std::vector<data::ImageReader::Pending> pending;
  for (const Range& range : ranges) {
    positions.push_back(positions_of(range));
    pending.push_back(start(*train_, positions.back(),
                            [this](int64_t position) { return order_.sample_at(position); }));
  }
  std::vector<data::Batch> batches;
  for (size_t i = 0; i < ranges.size(); ++i) {
    batches.push_back(
        training_batch(batch_from(pending[i], positions[i]), positions[i], ranges[i]));
  }
  return batches;
}

std::vector<data::Batch> ImageTask::read_validation_step(int64_t step) const {
  std::vector<data::Batch> batches;
  for (const Range& range :
       data::evaluation_micro_batches(shape_, validation_->source().size(), step)) {
    batches.push_back(batch_of(positions_in(range)));
  }
  return batches;
}

std::vector<int64_t> ImageTask::shown_images(int64_t most) const {
  const int64_t size = validation_->source().size(), count = std::min(most, size);
  std::vector<int64_t> indices(count);
  for (int64_t i = 0; i < count; ++i) indices[i] = i * size / count;
  return indices;
}

data::Batch ImageTask::batch_of(const std::vector<int64_t>& indices) const {
  data::ImageReader::Pending pending = start(*validation_, indices, std::identity());
  return validation_batch(batch_from(pending, indices));
}

at::Tensor ImageTask::on_all_ranks(const at::Tensor& found, const std::vector<int64_t>& sizes,
                                   bool divided) const {
  const bool tells = context_.holds_stage(context_.strategy().num_stages() - 1) &&
                     context_.coordinate(Axis::dp) == 0 && context_.coordinate(Axis::tp) == 0 &&
                     (divided || context_.coordinate(Axis::sp) == 0);
  at::Tensor all = at::zeros(sizes, at::TensorOptions(at::kDouble).device(context_.device()));
  if (tells) all.copy_(found);
  comm::all_reduce(all, context_.world_group(), comm::Reason::metrics);
  return all;
}

}  // namespace colossal
