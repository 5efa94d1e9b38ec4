#include "colossal/engine/foreign_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"

namespace colossal {

void refuse_axes_of_modules(const Strategy& strategy, bool in_parts) {
  const int pp = in_parts ? 1 : strategy.pp;
  if (strategy.tp * strategy.sp * pp == 1) return;
  throw ConfigError(fmt::format(
      "pp {} x sp {} x tp {}: your own module supports replicas (dp) and, if it is given in parts, "
      "pipelines (pp) only; build it from colossal::nn, or use dp = {}",
      strategy.pp, strategy.sp, strategy.tp, strategy.world_size() / (in_parts ? strategy.pp : 1)));
}

void ForeignParameters::add(const ForeignParameter& foreign, int stage) {
  const at::NoGradGuard no_grad;
  const at::Tensor& tensor = foreign.tensor;
  if (is_known(foreign.name, tensor, stage)) return;
  auto parameter = std::make_shared<nn::Parameter>();
  parameter->name = foreign.name;
  parameter->product = foreign.product;
  if (foreign.is_head) parameter->role = nn::ParameterRole::head_table;
  parameter->shape = tensor.sizes().vec();
  parameter->trainable = tensor.requires_grad();
  parameter->placement.stage = stage;
  parameter->tensor = tensor;
  if (context_.holds_stage(stage)) {
    take_over(*parameter);
  } else {
    parameter->tensor.set_data(at::empty({0}, tensor.options()));
  }
  list_.emplace_back(std::move(parameter));
}

void ForeignParameters::add(const torch::nn::Module& module, const std::string& prefix, int stage) {
  warn_of_dropout(module);
  std::set<const at::TensorImpl*> of_products;
  const auto add_product = [&](const torch::nn::Module& part) {
    const auto* const linear = part.as<torch::nn::Linear>();
    if (linear) of_products.insert(linear->weight.unsafeGetTensorImpl());
  };
  add_product(module);
  for (const auto& part : module.modules(/*include_self=*/false)) add_product(*part);
  for (const auto& item : module.named_parameters()) {
    ForeignParameter parameter{.name = prefix + item.key(), .tensor = item.value()};
    if (of_products.contains(item.value().unsafeGetTensorImpl())) {
      parameter.product = nn::WeightOrder::out_in;
    }
    add(parameter, stage);
  }
}

// Returns whether the tensor was added before.
bool ForeignParameters::is_known(const std::string& name, const at::Tensor& tensor, int stage) {
  const auto [found, is_new] =
      places_.try_emplace(tensor.unsafeGetTensorImpl(), Place{name, stage});
  if (is_new || found->second.stage == stage) return !is_new;
  throw ConfigError(
      fmt::format("{} and {} are one parameter, in stages {} and {} of the pipeline; cut the "
                  "model so that one stage has both, or give each its own parameter",
                  found->second.name, name, found->second.stage, stage));
}

// Gives all replicas the values of the first replica.
void ForeignParameters::take_over(nn::Parameter& parameter) const {
  at::Tensor values = parameter.tensor.detach().contiguous().view(-1);
  comm::broadcast(values, 0, context_.data_group(), comm::Reason::parameter);
  parameter.tensor.set_data(values.view(parameter.shape));
}

void ForeignParameters::warn_of_dropout(const torch::nn::Module& module) {
  if (warned_ || context_.rank() != 0 || context_.world().size() == 1) return;
  std::vector<std::string> names{module.name()};
  for (const auto& child : module.modules(/*include_self=*/false)) names.push_back(child->name());
  for (const std::string& name : names) {
    if (name.find("Dropout") == std::string::npos) continue;
    log::warn(
        "{} uses LibTorch's random number generator, so results depend on the number of ranks",
        name);
    warned_ = true;
    return;
  }
}

}  // namespace colossal
