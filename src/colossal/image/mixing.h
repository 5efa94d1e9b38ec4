// Which images of a batch are mixed with each other, and how: mixup and CutMix. Like augment.h,
// pure functions of the options, a seed and the sample's position in the run's order of samples.
//
//   mixup    pixels = share * own + (1 - share) * partner's. H. Zhang et al., "mixup: Beyond
//            empirical risk minimization", ICLR 2018.
//   CutMix   a box of the partner replaces the same box; share: of the pixels that stay. S. Yun et
//            al., "CutMix: Regularization strategy to train strong classifiers with localizable
//            features", ICCV 2019.
//
// In both, the target is share * own + (1 - share) * partner's, of one-hot labels. Share is drawn
// from Beta(alpha, alpha) for each sample.
#pragma once

#include <cstdint>
#include <optional>

#include "colossal/image/image.h"

namespace colossal::image {

struct MixingOptions {
  double mixup_alpha = 0;   // 0: no mixup
  double cutmix_alpha = 0;  // 0: no CutMix
  // If both are wanted: the probability that a sample gets CutMix, else it gets mixup.
  double cutmix_probability = 0.5;
  double probability = 1;  // that a sample is mixed at all
};

// How a sample is mixed.
struct Mix {
  int64_t partner =
      0;             // position of the other sample; the sample's own position: it stays as it is
  double share = 1;  // of the sample itself
  std::optional<PixelBox> box = {};  // CutMix: comes from the partner; nullopt: mixup
};

// Partners are neighbours: positions 2k and 2k + 1 of a global batch, so they are in the same
// micro-batch if micro-batches have even numbers of samples. The last sample of an odd global batch
// has no partner. size: of the images. global_batch: samples per step (data/sampler.h).
Mix random_mix(const MixingOptions& options, ImageSize size, int64_t global_batch, uint64_t seed,
               int64_t position);

// Returns the number at `position` of a stream of numbers from the distribution Beta(alpha,
// alpha). alpha: above 0.
double random_beta(double alpha, uint64_t seed, uint64_t position);

}  // namespace colossal::image
