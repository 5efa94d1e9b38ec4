// Routers against what their papers say, one token at a time, and a layer of experts against a loop
// over tokens and experts, values and gradients.
#include "colossal/nn/experts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "colossal/nn/dense_builder.h"
#include "tests/support/resident.h"

namespace colossal::nn {
namespace experts_test {

using Scores = RouterOptions::Scores;

constexpr int64_t kHidden = 6, kInner = 5;

at::Tensor numbers(at::IntArrayRef sizes, int64_t first) {
  const int64_t count = c10::multiply_integers(sizes);
  return at::arange(first, first + count, at::kDouble).mul_(1.7).sin_().view(sizes);
}

std::vector<double> values_of(const at::Tensor& row) {
  const at::Tensor dense = row.detach().contiguous();
  return {dense.const_data_ptr<double>(), dense.const_data_ptr<double>() + dense.numel()};
}

// Indices of the `count` largest, one after the other.
std::vector<int64_t> largest_of(std::vector<double> from, int64_t count) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < count; ++i) {
    const auto best = std::max_element(from.begin(), from.end());
    found.push_back(best - from.begin());
    *best = -INFINITY;
  }
  return found;
}

std::vector<int64_t> chosen_by_formula(const at::Tensor& scores, const at::Tensor& correction,
                                       const RouterOptions& options) {
  std::vector<double> by = values_of(scores);
  if (correction.defined()) {
    const std::vector<double> bias = values_of(correction);
    for (size_t i = 0; i < by.size(); ++i) by[i] += bias[i];
  }
  const int64_t size = options.experts / options.groups;
  std::vector<double> of_groups;
  for (int64_t group = 0; group < options.groups; ++group) {
    const std::vector<double> here(by.begin() + group * size, by.begin() + (group + 1) * size);
    double sum = 0;
    for (const int64_t i : largest_of(here, std::min(size, options.best_of_group))) sum += here[i];
    of_groups.push_back(sum);
  }
  const std::vector<int64_t> best = largest_of(of_groups, options.chosen_groups);
  for (int64_t expert = 0; expert < options.experts; ++expert) {
    if (std::ranges::find(best, expert / size) == best.end()) by[expert] = -INFINITY;
  }
  return largest_of(by, options.chosen);
}

// {expert, weight} of each choice of a token.
std::vector<std::pair<int64_t, at::Tensor>> routed_by_formula(const at::Tensor& logits,
                                                              const at::Tensor& correction,
                                                              const RouterOptions& options) {
  const at::Tensor exponentials = logits.exp();
  const at::Tensor scores = options.scores == Scores::softmax   ? exponentials / exponentials.sum()
                            : options.scores == Scores::sigmoid ? 1 / (1 + (-logits).exp())
                                                                : logits;
  std::vector<std::pair<int64_t, at::Tensor>> routed;
  at::Tensor sum = at::zeros({}, logits.options());
  for (const int64_t expert : chosen_by_formula(scores, correction, options)) {
    const bool of_chosen = options.scores == Scores::softmax_of_chosen;
    routed.emplace_back(expert, of_chosen ? exponentials[expert] : scores[expert]);
    sum = sum + routed.back().second;
  }
  for (auto& [expert, weight] : routed) {
    if (options.normalized || options.scores == Scores::softmax_of_chosen) weight = weight / sum;
    weight = weight * options.scale;
  }
  return routed;
}

struct Layer {
  DenseBuilder build;
  std::unique_ptr<Experts> experts;
  test::Resident here;
  std::map<std::string, at::Tensor> tensors;

  explicit Layer(const RouterOptions& router, at::ScalarType type = at::kDouble) {
    experts = build.experts("experts", {.hidden = kHidden, .inner = kInner, .router = router});
    int64_t first = 1;
    for (const ParameterHandle& parameter : build.parameters()) {
      parameter->tensor = numbers(parameter->shape, first).to(type);
      if (parameter->trainable) parameter->tensor.requires_grad_();
      parameter->residency = &here;
      tensors[parameter->name] = parameter->tensor;
      first += 1000;
    }
  }

  std::vector<at::Tensor> trained() const {
    std::vector<at::Tensor> all;
    for (const ParameterHandle& parameter : build.parameters()) {
      if (parameter->trainable) all.push_back(parameter->tensor);
    }
    return all;
  }
  at::Tensor find(const std::string& name) const {
    const auto found = tensors.find(name);
    return found == tensors.end() ? at::Tensor() : found->second;
  }
  at::Tensor forward(const at::Tensor& x) const { return experts->forward(x, {}, nullptr); }

  at::Tensor by_formula(const at::Tensor& x, const RouterOptions& options) const {
    std::vector<at::Tensor> results;
    for (const at::Tensor& token : x.flatten(0, 1).unbind()) {
      at::Tensor logits = at::mv(find("router.weight"), token);
      if (options.bias) logits = logits + find("router.bias");
      at::Tensor y = at::zeros_like(token);
      for (const auto& [expert, weight] :
           routed_by_formula(logits, find("router.correction_bias"), options)) {
        const at::Tensor gate = at::mv(find("experts.gate.weight")[expert], token);
        const at::Tensor up = at::mv(find("experts.up.weight")[expert], token);
        const at::Tensor inner = gate / (1 + (-gate).exp()) * up;
        y = y + weight * at::mv(find("experts.down.weight")[expert], inner);
      }
      results.push_back(y);
    }
    return at::stack(results).view(x.sizes());
  }
};

double relative(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / std::max(b.norm().item<double>(), 0.1);
}

std::map<std::string, RouterOptions> routers() {
  return {
      {"mixtral", {.experts = 8, .chosen = 2, .normalized = true}},
      {"qwen3_moe", {.experts = 8, .chosen = 3}},
      {"gpt_oss", {.experts = 8, .chosen = 4, .scores = Scores::softmax_of_chosen, .bias = true}},
      {"deepseek_v2", {.experts = 8, .chosen = 3, .scale = 2.5, .groups = 4, .chosen_groups = 2}},
      {"deepseek_v3",
       {.experts = 8,
        .chosen = 3,
        .scores = Scores::sigmoid,
        .normalized = true,
        .scale = 2.5,
        .groups = 4,
        .chosen_groups = 2,
        .best_of_group = 2,
        .correction_bias = true}},
      {"all", {.experts = 3, .chosen = 3}},
      {"one", {.experts = 1, .chosen = 1, .normalized = true}}};
}

void expect_equal_to_formula(const Layer& layer, const at::Tensor& x,
                             const RouterOptions& options) {
  const at::Tensor y = layer.forward(x), expected = layer.by_formula(x, options);
  EXPECT_LE(relative(y, expected), 1e-13);
  const at::Tensor g = numbers(x.sizes(), 77);
  std::vector<at::Tensor> inputs = layer.trained();
  inputs.push_back(x);
  const auto ours = torch::autograd::grad({y}, inputs, {g}, false, false, /*allow_unused=*/true);
  const auto theirs =
      torch::autograd::grad({expected}, inputs, {g}, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_LE(relative(ours[i], theirs[i].defined() ? theirs[i] : at::zeros_like(inputs[i])),
              1e-12);
  }
}

TEST(Experts, AreALoopOverTokensAndExperts) {
  for (const auto& [name, options] : routers()) {
    for (const int64_t sequence : {7, 1}) {  // one token: most experts have none
      SCOPED_TRACE(name + ", " + std::to_string(sequence));
      const Layer layer(options);
      expect_equal_to_formula(
          layer, numbers({sequence == 1 ? 1 : 2, sequence, kHidden}, 5).requires_grad_(), options);
    }
  }
}

TEST(Experts, OfWhichOneHasAllTokens) {
  const RouterOptions options{
      .experts = 4, .chosen = 1, .scores = Scores::softmax_of_chosen, .bias = true};
  const Layer layer(options);
  layer.find("router.bias").detach()[2].fill_(100);
  const at::Tensor x = numbers({2, 7, kHidden}, 5).requires_grad_();
  expect_equal_to_formula(layer, x, options);
  layer.forward(x).sum().backward();
  const at::Tensor of_down = layer.find("experts.down.weight").grad();
  EXPECT_GT(of_down[2].norm().item<double>(), 0);
  for (const int64_t without : {0, 1, 3}) EXPECT_EQ(of_down[without].norm().item<double>(), 0);
}

// Results and gradients, in the types in which the order of a sum shows.
TEST(Experts, GiveTheSameBitsTwice) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Layer layer({.experts = 8, .chosen = 3, .normalized = true}, type);
    const at::Tensor x = numbers({4, 50, kHidden}, 5).to(type).requires_grad_();
    std::vector<at::Tensor> inputs = layer.trained();
    inputs.push_back(x);
    const auto run = [&] {
      const at::Tensor y = layer.forward(x);
      std::vector<at::Tensor> all = torch::autograd::grad({y}, inputs, {y.detach()});
      all.push_back(y.detach());
      return all;
    };
    const std::vector<at::Tensor> first = run(), second = run();
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(second[i]));
  }
}

// A token's router is the same whatever type the model computes in, but for its input's rounding.
TEST(Router, ComputesInFp32) {
  const RouterOptions options{.experts = 8, .chosen = 8};
  DenseBuilder build;
  const auto experts = build.experts("experts", {.hidden = 64, .inner = 2, .router = options});
  test::Resident here;
  const ParameterHandle weight = build.parameters().front();
  ASSERT_EQ(weight->name, "router.weight");
  weight->tensor = numbers({8, 64}, 3).to(at::kBFloat16);
  weight->residency = &here;
  const at::Tensor x = numbers({5, 64}, 900).to(at::kBFloat16);
  const Routing routing = Router(options, weight, {}, {}).route(x, false);
  EXPECT_EQ(routing.weights.scalar_type(), at::kFloat);
  const at::Tensor logits = at::matmul(x.to(at::kDouble), weight->tensor.to(at::kDouble).t());
  const at::Tensor expected = at::softmax(logits, -1).gather(1, routing.experts);
  EXPECT_LE(relative(routing.weights.to(at::kDouble), expected), 1e-5);
}

// Of equal scores the first; of experts outside the best groups none, however bad the others are.
TEST(Router, ChoosesByIndexAmongEqualsAndWithinTheBestGroupsOnly) {
  const at::Tensor equal = at::zeros({2, 6}, at::kDouble);
  EXPECT_TRUE(choose_experts(equal, {}, {.experts = 6, .chosen = 2})
                  .experts.equal(at::tensor({0, 1, 0, 1}, at::kLong).view({2, 2})));
  const at::Tensor correction = at::tensor({-9., -9., -9., -9., -1., -9.}, at::kDouble);
  const Routing routing = choose_experts(equal, correction,
                                         {.experts = 6,
                                          .chosen = 2,
                                          .scores = Scores::sigmoid,
                                          .groups = 3,
                                          .chosen_groups = 1,
                                          .best_of_group = 2});
  EXPECT_TRUE(routing.experts[0].equal(at::tensor({4, 5}, at::kLong)));
  // The correction chooses; it does not weigh.
  EXPECT_TRUE(routing.weights.equal(at::full({2, 2}, 0.5, at::kDouble)));
}

// No correction bias is trained; all else is, and experts' matrices are stacked.
TEST(Experts, HaveStackedParameters) {
  RouterOptions options = routers().at("deepseek_v3");
  options.bias = true;
  const Layer layer(options);
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterHandle& parameter : layer.build.parameters()) {
    shapes[parameter->name] = parameter->shape;
    EXPECT_EQ(parameter->trainable, parameter->name != "router.correction_bias");
  }
  EXPECT_EQ(shapes, (std::map<std::string, std::vector<int64_t>>{
                        {"router.weight", {8, kHidden}},
                        {"router.bias", {8}},
                        {"router.correction_bias", {8}},
                        {"experts.gate.weight", {8, kInner, kHidden}},
                        {"experts.up.weight", {8, kInner, kHidden}},
                        {"experts.down.weight", {8, kHidden, kInner}}}));
}

}  // namespace experts_test
}  // namespace colossal::nn
