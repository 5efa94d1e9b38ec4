#include "colossal/serve/block_calibration.h"

#include <ATen/ATen.h>

#include "colossal/base/error.h"

namespace colossal::serve {
namespace {

constexpr int64_t kNoExpert = -1;

using HowOf = std::function<ops::Quantization(const nn::Parameter& weight)>;

// Divides a norm's outputs by `factors`, and returns the factors by which it really divides: the
// norm's new weight is rounded to the dtype of the files, and the linear layers must be multiplied
// by exactly the same factors.
at::Tensor divide_norm(const std::string& norm, const at::Tensor& factors, bool unit_offset,
                       BlockParameters& block) {
  BlockParameter& weight = block.at(norm + ".weight");
  const double offset = unit_offset ? 1 : 0;
  const at::Tensor before = weight.numbers.to(at::kDouble) + offset;
  const at::Tensor stored = (before / factors - offset).to(weight.stored);
  const at::Tensor after = stored.to(at::kDouble) + offset;
  weight.numbers = stored.to(at::kFloat);
  const at::Tensor exact = at::where(after != 0, before / after, factors);
  // If a weight is 0, or rounds to 0, the channel is 0 (nearly) and any factor will do.
  const at::Tensor used = at::where(before.abs() > 0, exact, factors);
  if (const auto bias = block.find(norm + ".bias"); bias != block.end()) {
    bias->second.numbers = (bias->second.numbers / used).to(bias->second.stored).to(at::kFloat);
  }
  return used;
}

// Divides outputs of a linear layer. outputs: which; empty: all.
void divide_outputs(const std::string& product, Range outputs, const at::Tensor& factors,
                    BlockParameters& block) {
  const auto divide = [&](at::Tensor& numbers, const at::Tensor& by) {
    numbers = numbers.clone();
    const at::Tensor divided =
        outputs.empty() ? numbers : numbers.narrow(0, outputs.begin, outputs.size());
    divided.copy_(divided / by);
  };
  divide(block.at(product + ".weight").numbers, factors.unsqueeze(1));
  if (const auto bias = block.find(product + ".bias"); bias != block.end()) {
    divide(bias->second.numbers, factors);
  }
}

void multiply_inputs(at::Tensor& weight, const at::Tensor& factors) {
  weight = (weight * factors).to(at::kFloat);
}

void scale_experts(const models::ScaledInputs& place, const BlockInputs& inputs, const HowOf& how,
                   BlockParameters& block) {
  BlockParameter& down = block.at(place.products.front() + ".weight");
  const at::Tensor up = block.at(place.producer + ".weight").numbers;
  for (int64_t expert = 0; expert < up.size(0); ++expert) {
    const ops::InputStatistics* seen = inputs.find(down.handle->name, expert);
    if (!seen) continue;
    const at::Tensor matrix = down.numbers[expert];
    const at::Tensor factors = ops::awq_factors({matrix}, *seen, how(*down.handle));
    matrix.mul_(factors);
    up[expert].div_(factors.unsqueeze(1));
  }
}

}  // namespace

void BlockInputs::add(const std::vector<nn::ParameterHandle>& weights,
                      std::optional<int64_t> expert, const at::Tensor& rows) {
  const int64_t of_expert = expert.value_or(kNoExpert);
  const Key first{weights.front()->name, of_expert};
  for (const nn::ParameterHandle& weight : weights) first_[{weight->name, of_expert}] = first;
  statistics_.try_emplace(first, rows.size(1)).first->second.add(rows);
}

const ops::InputStatistics* BlockInputs::find(const std::string& parameter,
                                              std::optional<int64_t> expert) const {
  const auto first = first_.find({parameter, expert.value_or(kNoExpert)});
  return first == first_.end() ? nullptr : &statistics_.at(first->second);
}

void scale_inputs(const std::vector<models::ScaledInputs>& places, const BlockInputs& inputs,
                  const HowOf& how, bool norm_unit_offset, BlockParameters& block) {
  for (const models::ScaledInputs& place : places) {
    if (place.of_experts) {
      scale_experts(place, inputs, how, block);
      continue;
    }
    std::vector<at::Tensor> weights;
    for (const std::string& product : place.products) {
      weights.push_back(block.at(product + ".weight").numbers);
    }
    const nn::Parameter& first = *block.at(place.products.front() + ".weight").handle;
    const ops::InputStatistics* seen = inputs.find(first.name);
    COLOSSAL_CHECK(seen != nullptr, "{} multiplied nothing", first.name);
    at::Tensor factors = ops::awq_factors(weights, *seen, how(first));
    if (place.producer_is_norm) {
      factors = divide_norm(place.producer, factors, norm_unit_offset, block);
    } else {
      divide_outputs(place.producer, place.producer_outputs, factors, block);
    }
    for (const std::string& product : place.products) {
      multiply_inputs(block.at(product + ".weight").numbers, factors);
    }
  }
}

}  // namespace colossal::serve
