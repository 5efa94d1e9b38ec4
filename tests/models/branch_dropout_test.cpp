#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/random.h"

namespace colossal::models {
namespace {

// The share of a block's numbers that leave the residual stream as it was: half of them in a
// dropout of the sum, as transformers' Falcon has it; a quarter where each branch is dropped apart.
double unchanged(const ModelRequest& request) {
  const at::NoGradGuard no_grad;
  const ModelSpecification specification = resolve_model(request);
  nn::DenseBuilder build;
  const auto model = build_model(specification, build);
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    parameter->tensor = at::empty(parameter->shape, at::kDouble);
    ops::fill_normal(parameter->tensor.view(-1), 0, ops::parameter_stream(3, parameter->name), 0,
                     0.5);
  }
  nn::StepContext context = nn::make_step_context(4, 16, at::kCPU);
  context.training = true;
  const nn::BlockState before = model->text_inputs().embed({at::arange(64).view({4, 16})}, context);
  const at::Tensor change = model->run_blocks({0, 1}, before, context).output() - before.output();
  return change.eq(0).to(at::kDouble).mean().item<double>();
}

TEST(BranchDropout, FalconDropsTheSumOfParallelBranches) {
  EXPECT_NEAR(unchanged({.preset = "falcon-7b",
                         .overrides = {{"num_hidden_layers", 1},
                                       {"hidden_size", 48},
                                       {"num_attention_heads", 4},
                                       {"vocab_size", 64}},
                         .dropout = 0.5}),
              0.5, 0.04);
  EXPECT_NEAR(unchanged({.preset = "gptj-6b",
                         .overrides = {{"n_layer", 1},
                                       {"n_embd", 48},
                                       {"n_head", 4},
                                       {"rotary_dim", 4},
                                       {"vocab_size", 64}},
                         .dropout = 0.5}),
              0.25, 0.04);
}

}  // namespace
}  // namespace colossal::models
