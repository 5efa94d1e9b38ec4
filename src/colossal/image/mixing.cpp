#include "colossal/image/mixing.h"

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/base/random.h"

namespace colossal::image {
namespace {

// Returns the logarithm of a number from Gamma(alpha, 1). G. Marsaglia and W. Tsang, "A simple
// method for generating gamma variables", 2000; for alpha < 1, Gamma(alpha + 1) * U^(1 / alpha).
// Logarithms, because small alphas give numbers below the smallest double.
double random_log_gamma(double alpha, RandomKey normals, RandomKey uniforms, uint64_t position) {
  const double boosted = alpha < 1 ? alpha + 1 : alpha;
  const double d = boosted - 1.0 / 3.0, c = 1 / std::sqrt(9 * d);
  for (uint64_t draw = 0;; ++draw) {
    const double x = random_normal(normals, position, draw);
    const double v = std::pow(1 + c * x, 3);
    // 1 - u is never 0.
    const double log_u = std::log(1 - random_uniform(uniforms, position, draw + 1));
    if (v <= 0 || log_u > 0.5 * x * x + d * (1 - v + std::log(v))) continue;
    const double log_gamma = std::log(d * v);
    if (alpha >= 1) return log_gamma;
    return log_gamma + std::log(1 - random_uniform(uniforms, position, 0)) / alpha;
  }
}

// The box of CutMix, with its center anywhere in the image, cut at the image's edges.
PixelBox random_box(double share, ImageSize size, uint64_t seed, uint64_t position) {
  const RandomKey key = random_key(seed, 0, "image cutmix box");
  const double half = 0.5 * std::sqrt(1 - share);
  const auto range = [&](int64_t side, uint64_t draw) {
    const auto length = static_cast<double>(side);
    const auto center = static_cast<int64_t>(random_uniform(key, position, draw) * length);
    const auto reach = static_cast<int64_t>(half * length);
    return std::pair(std::max<int64_t>(center - reach, 0), std::min(center + reach, side));
  };
  const auto [top, bottom] = range(size.height, 0);
  const auto [left, right] = range(size.width, 1);
  return {top, left, bottom - top, right - left};
}

bool chooses_cutmix(const MixingOptions& options, double number) {
  if (options.cutmix_alpha <= 0) return false;
  return options.mixup_alpha <= 0 || number < options.cutmix_probability;
}

}  // namespace

double random_beta(double alpha, uint64_t seed, uint64_t position) {
  COLOSSAL_CHECK(alpha > 0, "alpha {}", alpha);
  const auto log_gamma = [&](const char* normals, const char* uniforms) {
    return random_log_gamma(alpha, random_key(seed, 0, normals), random_key(seed, 0, uniforms),
                            position);
  };
  const double first = log_gamma("image mix normal 1", "image mix uniform 1");
  const double second = log_gamma("image mix normal 2", "image mix uniform 2");
  return 1 / (1 + std::exp(second - first));
}

Mix random_mix(const MixingOptions& options, ImageSize size, int64_t global_batch, uint64_t seed,
               int64_t position) {
  const Mix unmixed{.partner = position};
  const int64_t in_batch = position % global_batch, other = in_batch ^ 1;
  if ((options.mixup_alpha <= 0 && options.cutmix_alpha <= 0) || other >= global_batch) {
    return unmixed;
  }
  const RandomKey choices = random_key(seed, 0, "image mix choice");
  const auto at = static_cast<uint64_t>(position);
  if (random_uniform(choices, at, 0) >= options.probability) return unmixed;
  Mix mix{.partner = position - in_batch + other};
  if (!chooses_cutmix(options, random_uniform(choices, at, 1))) {
    mix.share = random_beta(options.mixup_alpha, seed, at);
    return mix;
  }
  mix.box = random_box(random_beta(options.cutmix_alpha, seed, at), size, seed, at);
  mix.share = 1 - static_cast<double>(mix.box->height * mix.box->width) /
                      static_cast<double>(size.height * size.width);
  return mix;
}

}  // namespace colossal::image
