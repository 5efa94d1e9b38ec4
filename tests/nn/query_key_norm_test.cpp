// Attention with normed queries and keys against PyTorch's operators, values and gradients.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>

#include "colossal/nn/dense_builder.h"
#include "tests/support/resident.h"

namespace colossal::nn {
namespace query_key_norm_test {

using Kind = QueryKeyNormOptions::Kind;
using Over = QueryKeyNormOptions::Over;
using Tensors = std::map<std::string, at::Tensor>;

constexpr int64_t kBatch = 2, kSequence = 7, kHeads = 6, kKeys = 2, kSize = 5;

at::Tensor numbers(at::IntArrayRef sizes, int64_t first) {
  const int64_t count = c10::multiply_integers(sizes);
  return at::arange(first, first + count, at::kDouble).sin_().view(sizes);
}

// Of heads [batch, sequence, heads, size].
at::Tensor normed(const at::Tensor& heads, const QueryKeyNormOptions& options,
                  const at::Tensor& weight, const at::Tensor& bias) {
  const bool over_all = options.over == Over::all_heads;
  at::Tensor x = over_all ? heads.flatten(2) : heads;
  if (options.kind == Kind::layer) x = x - x.mean(-1, true);
  x = x / (x.square().mean(-1, true) + options.epsilon).sqrt();
  x = x * (options.unit_offset ? 1 + weight : weight);
  if (bias.defined()) x = x + bias;
  return x.view(heads.sizes());
}

at::Tensor formula(const at::Tensor& qkv, const QueryKeyNormOptions& options, Tensors& parameters) {
  const auto parts =
      qkv.unflatten(-1, {kHeads + 2 * kKeys, kSize}).split_with_sizes({kHeads, kKeys, kKeys}, 2);
  const auto norm_of = [&](const std::string& name, const at::Tensor& heads) {
    return normed(heads, options, parameters[name + ".weight"], parameters[name + ".bias"]);
  };
  const at::Tensor queries = norm_of("query_norm", parts[0]).transpose(1, 2);
  const auto for_queries = [](const at::Tensor& heads) {
    return heads.repeat_interleave(kHeads / kKeys, 2).transpose(1, 2);
  };
  const at::Tensor keys = for_queries(norm_of("key_norm", parts[1]));
  const at::Tensor hidden = at::ones({kSequence, kSequence}, at::kBool).triu(1);
  const at::Tensor scores = at::matmul(queries, keys.transpose(2, 3)) * 0.3;
  const at::Tensor seen = at::softmax(scores.masked_fill(hidden, -INFINITY), -1);
  return at::matmul(seen, for_queries(parts[2])).transpose(1, 2).flatten(2);
}

void expect_equal_to_formula(const QueryKeyNormOptions& options,
                             const std::vector<int64_t>& query_weight_shape) {
  DenseBuilder build;
  const auto attention = build.attention("attention", {.heads = kHeads,
                                                       .kv_heads = kKeys,
                                                       .head_size = kSize,
                                                       .scale = 0.3,
                                                       .query_key_norm = options});
  test::Resident here;
  Tensors parameters;
  at::Tensor qkv = numbers({kBatch, kSequence, (kHeads + 2 * kKeys) * kSize}, 3).requires_grad_();
  std::vector<at::Tensor> inputs{qkv};
  for (const ParameterHandle& parameter : build.parameters()) {
    parameter->residency = &here;
    parameter->tensor = numbers(parameter->shape, 100 * static_cast<int64_t>(inputs.size()));
    parameter->tensor.requires_grad_();
    parameters[parameter->name] = parameter->tensor;
    inputs.push_back(parameter->tensor);
    EXPECT_EQ(parameter->initializer.value,
              parameter->name.ends_with("weight") && !options.unit_offset ? 1 : 0);
  }
  EXPECT_EQ(parameters.size(), options.bias ? 4 : 2);
  EXPECT_EQ(parameters["query_norm.weight"].sizes().vec(), query_weight_shape);
  const at::Tensor g = numbers({kBatch, kSequence, kHeads * kSize}, 1000);
  const at::Tensor y = attention->forward(qkv, {}, make_step_context(kBatch, kSequence, at::kCPU));
  const at::Tensor expected = formula(qkv, options, parameters);
  EXPECT_LE((y - expected).norm().item<double>(), 1e-13 * expected.norm().item<double>());
  const auto found = torch::autograd::grad({y}, inputs, {g});
  const auto wanted = torch::autograd::grad({expected}, inputs, {g});
  // That of a bias of all keys is zero: it moves all scores of a query alike.
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LE((found[i] - wanted[i]).norm().item<double>(),
              1e-12 * std::max(0.1, wanted[i].norm().item<double>()))
        << i;
  }
}

TEST(QueryKeyNorm, EqualsItsFormula) {
  expect_equal_to_formula({.kind = Kind::rms}, {kSize});
  expect_equal_to_formula({.kind = Kind::rms, .unit_offset = true, .epsilon = 1e-3}, {kSize});
  expect_equal_to_formula({.kind = Kind::rms, .over = Over::all_heads}, {kHeads * kSize});
  expect_equal_to_formula({.kind = Kind::layer, .own_weights = true}, {kHeads, kSize});
  expect_equal_to_formula({.kind = Kind::layer, .bias = true}, {kSize});
  expect_equal_to_formula({.kind = Kind::layer, .over = Over::all_heads, .bias = true},
                          {kHeads * kSize});
}

}  // namespace query_key_norm_test
}  // namespace colossal::nn
