#include "colossal/data/image_masks.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "colossal/data/image_batch.h"

namespace colossal::data {
namespace {

// Masks of samples with consecutive numbers: [samples, rows, columns].
at::Tensor masks_of(int64_t first, int64_t count, const ImageMaskOptions& options) {
  Batch batch;
  batch.sample_ids.resize(count);
  std::iota(batch.sample_ids.begin(), batch.sample_ids.end(), first);
  mask_patches(batch, options);
  const at::Tensor masks = batch.at(kMasks);
  EXPECT_EQ(masks.scalar_type(), at::kBool);
  return masks.view({count, options.rows, options.columns});
}

// Number of masked blocks of an image, each of which is masked as a whole.
int64_t masked_blocks(const at::Tensor& mask, const ImageMaskOptions& options) {
  int64_t masked = 0;
  for (int64_t row = 0; row < options.rows; row += options.block) {
    for (int64_t column = 0; column < options.columns; column += options.block) {
      const at::Tensor block =
          mask.narrow(0, row, std::min(options.block, options.rows - row))
              .narrow(1, column, std::min(options.block, options.columns - column));
      EXPECT_EQ(block.any().item<bool>(), block.all().item<bool>());
      masked += block.any().item<bool>() ? 1 : 0;
    }
  }
  return masked;
}

TEST(ImageMasks, HideTheSameNumberOfWholeBlocksOfEachImage) {
  struct Case {
    ImageMaskOptions options;
    int64_t blocks, masked;
  };
  for (const auto& [options, blocks, masked] :
       std::vector<Case>{{{.rows = 14, .columns = 14, .block = 2}, 49, 30},  // as in the paper
                         {{.rows = 14, .columns = 14}, 196, 118},
                         {{.rows = 5, .columns = 7, .block = 3, .share = 0.5}, 6, 3},
                         {{.rows = 4, .columns = 5, .share = 0.4}, 20, 8},  // 0.4 is not exact
                         {{.rows = 3, .columns = 3, .share = 0.001}, 9, 1},
                         {{.rows = 3, .columns = 3, .share = 0.999}, 9, 8}}) {
    EXPECT_EQ(options.num_blocks(), blocks);
    EXPECT_EQ(options.num_masked(), masked);
    const at::Tensor masks = masks_of(0, 20, options);
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(masked_blocks(masks[i], options), masked) << i;
  }
}

TEST(ImageMasks, DependOnSeedAndSampleOnly) {
  const ImageMaskOptions options{.rows = 6, .columns = 5, .seed = 3};
  const at::Tensor together = masks_of(7, 6, options);
  EXPECT_TRUE(at::equal(together, masks_of(7, 6, options)));
  EXPECT_TRUE(at::equal(together.narrow(0, 2, 3), masks_of(9, 3, options)));
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(at::equal(together[i], masks_of(7 + i, 1, options)[0]));
  }
  // A later epoch, and another seed, have other masks.
  EXPECT_FALSE(at::equal(together, masks_of(1007, 6, options)));
  EXPECT_FALSE(at::equal(together, masks_of(7, 6, {.rows = 6, .columns = 5, .seed = 4})));
}

TEST(ImageMasks, HideEachPatchEquallyOften) {
  const ImageMaskOptions options{.rows = 4, .columns = 5, .share = 0.6};
  constexpr int64_t kSamples = 4000;
  const at::Tensor shares = masks_of(0, kSamples, options).to(at::kDouble).mean(0);
  // 5 standard deviations of a mean of 4000 draws: 0.039
  EXPECT_LT((shares - 0.6).abs().max().item<double>(), 0.039);
}

}  // namespace
}  // namespace colossal::data
