// ForeignParameters: takes over the parameters of a user's own modules, so that the engine stores
// and updates them. The tensors stay the same objects; only their memory becomes the engine's.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"

namespace torch::nn {
class Module;
}

namespace colossal {

// Throws ConfigError if an axis is used that a user's own modules do not support: all but dp and,
// if the modules are given in parts, pp.
void refuse_axes_of_modules(const Strategy& strategy, bool in_parts);

// A parameter of a user's own module.
struct ForeignParameter {
  std::string name;
  at::Tensor tensor;
  // If the tensor is the weight of a linear layer: the order of its dims (nn::Parameter::product).
  std::optional<nn::WeightOrder> product{};
  bool is_head = false;  // whether it is the weight of the layer that computes the model's output
};

class ForeignParameters {
 public:
  // `context` must outlive this.
  explicit ForeignParameters(const ParallelContext& context) : context_(context) {}

  // Adds a parameter of a pipeline stage. Does nothing if the tensor was added before: two layers
  // then share it. All replicas get the values of the first one. If the stage is on other ranks,
  // releases the tensor's memory. Collective over the replicas. Throws ConfigError if the tensor
  // was added for another stage.
  void add(const ForeignParameter& parameter, int stage = 0);
  // Adds the parameters of a module; their names begin with `prefix`. Weights of torch::nn::Linear
  // are known as such. Warns once of dropout, whose random numbers depend on the layout.
  void add(const torch::nn::Module& module, const std::string& prefix, int stage);

  nn::ParameterList take() { return std::move(list_); }

 private:
  struct Place {
    std::string name;
    int stage;
  };

  bool is_known(const std::string& name, const at::Tensor& tensor, int stage);
  void take_over(nn::Parameter& parameter) const;
  void warn_of_dropout(const torch::nn::Module& module);

  const ParallelContext& context_;
  nn::ParameterList list_;
  std::map<const at::TensorImpl*, Place> places_;
  bool warned_ = false;
};

}  // namespace colossal
