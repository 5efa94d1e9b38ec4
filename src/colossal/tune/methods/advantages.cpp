#include "colossal/tune/methods/advantages.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/nanmean.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "colossal/base/error.h"

namespace colossal::tune {
namespace {

constexpr double kSmall = 1e-4;  // added to standard deviations, which may be 0

at::Tensor in_groups(const at::Tensor& rewards, int64_t group) {
  COLOSSAL_CHECK(rewards.dim() == 1 && rewards.numel() % group == 0, "{} rewards in groups of {}",
                 rewards.numel(), group);
  return rewards.view({-1, group});
}

Advantages finish(const at::Tensor& advantages, const at::Tensor& deviations) {
  return {.advantages = advantages.flatten().nan_to_num(0.0),
          .deviations = deviations.flatten(),
          .fraction_with_equal_rewards =
              deviations.isclose(at::zeros_like(deviations)).to(at::kDouble).mean().item<double>()};
}

}  // namespace

Advantages group_advantages(const at::Tensor& rewards, int64_t group, RewardScale scale) {
  const at::Tensor groups = in_groups(rewards, group);
  const at::Tensor of_groups = sample_deviation(groups);
  at::Tensor advantages = groups - groups.nanmean(1, /*keepdim=*/true);
  if (scale == RewardScale::group) advantages = advantages / (of_groups + kSmall);
  if (scale == RewardScale::batch) advantages = advantages / (sample_deviation(rewards) + kSmall);
  return finish(advantages, of_groups);
}

Advantages leave_one_out_advantages(const at::Tensor& rewards, int64_t group, bool normalized) {
  const at::Tensor groups = in_groups(rewards, group);
  const at::Tensor counts =
      groups.isnan().logical_not().sum(1, /*keepdim=*/true).to(rewards.scalar_type());
  const at::Tensor others = (groups.nansum(1, /*keepdim=*/true) - groups) / (counts - 1);
  at::Tensor advantages = (groups - others).flatten();
  if (normalized)
    advantages = (advantages - advantages.nanmean()) / (sample_deviation(advantages) + kSmall);
  return finish(advantages, sample_deviation(groups));
}

Estimates generalized_advantages(const at::Tensor& rewards, const at::Tensor& values,
                                 const at::Tensor& mask, double gamma, double lambda) {
  const at::Tensor inside = values * mask;
  at::Tensor advantages = at::zeros_like(values);
  at::Tensor next_value = at::zeros_like(values.select(1, 0)), next = next_value;
  for (int64_t t = values.size(1) - 1; t >= 0; --t) {
    const at::Tensor here = mask.select(1, t), value = inside.select(1, t);
    const at::Tensor delta = rewards.select(1, t) + gamma * next_value - value;
    next = (delta + gamma * lambda * next) * here;
    next_value = value;
    advantages.select(1, t).copy_(next);
  }
  return {.advantages = advantages, .returns = (advantages + inside) * mask};
}

at::Tensor sample_deviation(const at::Tensor& x) {
  const at::Tensor is_there = x.isnan().logical_not();
  const at::Tensor count = is_there.sum(-1, /*keepdim=*/true).to(x.scalar_type());
  const at::Tensor distance = x - x.nanmean(-1, /*keepdim=*/true);
  const at::Tensor squares = distance.square().nansum(-1, /*keepdim=*/true);
  return at::sqrt(squares / (count - 1));
}

at::Tensor whitened(const at::Tensor& x, const at::Tensor& mask, bool shifted) {
  const at::Tensor count = mask.sum();
  const at::Tensor mean = (x * mask).sum() / count;
  const at::Tensor variance = ((x - mean).square() * mask).sum() / (count - 1);
  const at::Tensor scaled = (x - mean) * (variance + 1e-8).rsqrt();
  return (shifted ? scaled : scaled + mean) * mask;
}

}  // namespace colossal::tune
