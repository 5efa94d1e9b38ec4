#include "colossal/job/mask_config.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal {

data::ImageMaskOptions resolve_masks(const DataConfig& config,
                                     const nn::PatchEmbeddingOptions& patches) {
  constexpr double kShare = 0.6;
  constexpr int64_t kBlock = 32;
  const int64_t patch = patches.patch, side = std::min(patches.height, patches.width);
  const int64_t usual = std::max<int64_t>(1, std::min(kBlock, side / 4) / patch);
  const int64_t pixels = config.mask_block.value_or(usual * patch);
  if (pixels % patch != 0) {
    throw ConfigError(
        fmt::format("data.mask_block = {}: not a multiple of the model's patch_size = {}; use {}",
                    pixels, patch, std::max<int64_t>(1, pixels / patch) * patch));
  }
  const data::ImageMaskOptions options{.rows = patches.rows(),
                                       .columns = patches.columns(),
                                       .block = pixels / patch,
                                       .share = config.mask_probability.value_or(kShare),
                                       .seed = static_cast<uint64_t>(config.seed)};
  if (options.num_blocks() > 1) return options;
  throw ConfigError(fmt::format(
      "data.mask_block = {}: the model reads images of {} x {} pixels in {} x {} patches of {}, "
      "which are one block, so nothing would be left to see; use {}",
      pixels, patches.height, patches.width, options.rows, options.columns, patch,
      options.rows * options.columns > 1 ? fmt::format("data.mask_block = {}", usual * patch)
                                         : "a smaller patch_size"));
}

}  // namespace colossal
