#include "colossal/data/image_masks.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/random.h"
#include "colossal/data/image_batch.h"

namespace colossal::data {
namespace {

int64_t divided(int64_t patches, int64_t block) {
  return (patches + block - 1) / block;
}

}  // namespace

int64_t ImageMaskOptions::num_blocks() const {
  return divided(rows, block) * divided(columns, block);
}

int64_t ImageMaskOptions::num_masked() const {
  const auto wanted =
      static_cast<int64_t>(std::ceil(share * static_cast<double>(num_blocks()) - 1e-9));
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, num_blocks() - 1));
}

// Each block draws a number; those with the smallest ones are masked.
void mask_patches(Batch& batch, const ImageMaskOptions& options) {
  const int64_t blocks = options.num_blocks(), columns = options.columns;
  COLOSSAL_CHECK(blocks > 1, "masks of {} x {} patches in blocks of {}", options.rows, columns,
                 options.block);
  const RandomKey key = random_key(options.seed, 0, "masked patches");
  const at::Tensor masks = at::zeros({batch.rows(), options.rows * columns}, at::kBool);
  bool* masked = masks.mutable_data_ptr<bool>();
  std::vector<std::pair<double, int64_t>> drawn(blocks);
  for (const int64_t sample : batch.sample_ids) {
    for (int64_t block = 0; block < blocks; ++block) {
      drawn[block] = {
          random_uniform(key, static_cast<uint64_t>(sample), static_cast<uint64_t>(block)), block};
    }
    std::ranges::sort(drawn);
    std::vector<bool> chosen(blocks);
    for (int64_t i = 0; i < options.num_masked(); ++i) chosen[drawn[i].second] = true;
    for (int64_t patch = 0; patch < options.rows * columns; ++patch) {
      const int64_t row = patch / columns / options.block;
      const int64_t column = patch % columns / options.block;
      *masked++ = chosen[row * divided(columns, options.block) + column];
    }
  }
  batch.set(kMasks, masks);
}

}  // namespace colossal::data
