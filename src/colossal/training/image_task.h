// What tasks that train on images share: the sources of images, the order in which they are read,
// and the batches of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/data/images/image_reader.h"
#include "colossal/data/sampler.h"
#include "colossal/image/processor.h"
#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/training_task.h"

namespace colossal {

// Images are decoded, augmented (only those of data.train) and processed on job.threads threads
// beside the step before. TrainingTask documents the overridden functions.
class ImageTask : public TrainingTask {
 public:
  SavedModel saved_model() const override;
  bool has_validation() const override { return validation_ != nullptr; }
  data::BatchLoader training_loader(int64_t steps_done) const override;
  data::BatchLoader validation_loader() const override;
  int64_t num_validation_steps() const override;
  // Returns fingerprints of the sources.
  nlohmann::json state() const override;
  void check_resumed(const nlohmann::json& saved) const override;

 protected:
  struct Options {
    // Whether each image must have a label; else the task's batches have none.
    bool labels = false;
    std::vector<std::string> classes = {};  // names of the labels; empty: those of the source
    bool texts = false;                     // whether each image must have a text
  };
  // Opens the sources data.train and data.validation. Throws ConfigError if an image lacks a label
  // that it must have, and on all ranks if a rank's sources differ from those of rank 0. Collective
  // over all ranks. `job` and `context` must outlive this.
  ImageTask(const Job& job, const ParallelContext& context, const Options& options);

  // Returns the batch of these images, with which the functions below begin: pixels and,
  // with Options::labels, targets.
  virtual data::Batch batch_of_images(data::ImageBatch images,
                                      const std::vector<int64_t>& sample_ids) const;
  // Returns the positions, in the run's order of samples, of the images from which a training
  // micro-batch is made: first those in `range`, whose micro-batch it is.
  virtual std::vector<int64_t> positions_of(const Range& range) const;
  // Returns the training micro-batch `range`. images: those at positions_of(range).
  virtual data::Batch training_batch(data::Batch images, const std::vector<int64_t>& positions,
                                     const Range& range) const;
  // Returns a micro-batch of an evaluation. images: of data.validation; their sample_ids are their
  // indices in the source.
  virtual data::Batch validation_batch(data::Batch images) const { return images; }

  static std::vector<int64_t> positions_in(const Range& range);
  const Job& job() const { return job_; }
  const ParallelContext& context() const { return context_; }
  const data::BatchShape& shape() const { return shape_; }
  const image::Processor& processor() const { return processor_; }
  const data::ImageSource& validation_images() const { return validation_->source(); }

  // For pictures(). Return the indices of at most `most` images of data.validation, evenly spaced,
  // and the validation_batch() of images.
  std::vector<int64_t> shown_images(int64_t most) const;
  data::Batch batch_of(const std::vector<int64_t>& indices) const;
  // Returns, on all ranks, what a model gave the images of such a batch, in fp64. All replicas
  // compute the same images; `found` counts on those ranks of the last stage that are the first
  // along dp and tp and, without `divided`, along sp, and may be undefined elsewhere. divided: each
  // rank of sp has the values at its positions, and zeros at the others. Collective over all ranks.
  at::Tensor on_all_ranks(const at::Tensor& found, const std::vector<int64_t>& sizes,
                          bool divided) const;

 private:
  std::string validation_contents() const;
  std::unique_ptr<data::ImageReader> open(const char* setting,
                                          const std::vector<std::string>& patterns,
                                          const Options& options) const;
  data::Batch batch_from(data::ImageReader::Pending& pending,
                         const std::vector<int64_t>& sample_ids) const;
  std::vector<data::Batch> read_training_step(int64_t step) const;
  std::vector<data::Batch> read_validation_step(int64_t step) const;

  const Job& job_;
  const ParallelContext& context_;
  data::BatchShape shape_;
  image::Processor processor_;
  bool labels_;  // Options::labels
  std::unique_ptr<data::ImageReader> train_;
  std::unique_ptr<data::ImageReader> validation_;  // null: none
  data::SampleOrder order_;
};

}  // namespace colossal
