// How a run makes the inputs of its model from images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/images/image_reader.h"
#include "colossal/image/augment.h"
#include "colossal/image/mixing.h"
#include "colossal/image/processor.h"
#include "colossal/job/run_config.h"
#include "colossal/nn/patch_embedding.h"

namespace colossal {

// Returns the processor of the model's folder (empty: none) or, if it has none, one that resizes
// images to those of the model and scales values to -1 to 1. Throws ConfigError if the folder's
// processor makes images of another size than the model reads.
image::Processor processor_of(const std::string& folder, const nn::PatchEmbeddingOptions& model);

// Returns how data.augment mixes training images with each other; probability 0: not at all.
image::MixingOptions mixing_of(const DataConfig& data);

// Returns images as a batch of a model: pixels and, of those that have labels, targets. sample_ids:
// data::Batch::sample_ids. Throws InternalError if only some have labels.
data::Batch image_batch(data::ImageBatch images, std::vector<int64_t> sample_ids);

// Returns the changes of single training images that data.augment asks for; nullopt: none. Throws
// ConfigError for an unknown name.
std::optional<image::AugmentOptions> augmentation_of(const DataConfig& data);

}  // namespace colossal
