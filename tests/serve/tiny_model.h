// A small GPT-2 with random weights in fp64.
#pragma once

#include <ATen/ops/empty.h>

#include <memory>

#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/random.h"

namespace colossal::test {

struct TinyModel {
  models::ModelSpecification specification =
      models::resolve_model({.preset = "gpt2-tiny",
                             .overrides = {{"n_layer", 2},
                                           {"n_embd", 24},
                                           {"n_head", 3},
                                           {"vocab_size", 50},
                                           {"n_positions", 20}}});
  nn::DenseBuilder build;
  std::unique_ptr<models::Model> model = models::build_model(specification, build);

  TinyModel() {
    for (const nn::ParameterHandle& parameter : build.parameters()) {
      parameter->tensor = at::empty(parameter->shape, at::kDouble);
      ops::fill_normal(parameter->tensor.view(-1), 0, ops::parameter_stream(3, parameter->name), 0,
                       0.5);
    }
  }
};

}  // namespace colossal::test
