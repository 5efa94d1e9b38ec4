#include "colossal/ops/product/grouped_product.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "colossal/base/error.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/ops/expert_order.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

constexpr int64_t kIn = 17;

at::Tensor loop_of_groups(const at::Tensor& rows, const std::vector<int64_t>& counts,
                          const std::vector<at::Tensor>& weights) {
  std::vector<at::Tensor> of_groups;
  int64_t begin = 0;
  for (size_t group = 0; group < counts.size(); ++group) {
    const at::Tensor x = rows.narrow(0, begin, counts[group]);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& weight : weights) {
      parts.push_back(at::matmul(x, weight.select(0, static_cast<int64_t>(group)).t()));
    }
    of_groups.push_back(at::cat(parts, 1));
    begin += counts[group];
  }
  return at::cat(of_groups);
}

// Groups without rows, one row, all rows in one group, no rows at all.
std::vector<std::vector<int64_t>> all_counts() {
  return {{3, 0, 9, 5}, {0, 0, 17, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {150, 2, 0, 131}};
}

TEST(GroupedProduct, IsTheProductOfEachGroupWithItsGradients) {
  for (const at::ScalarType type : all_types()) {
    for (const std::vector<int64_t>& counts : all_counts()) {
      int64_t num_rows = 0;
      for (const int64_t count : counts) num_rows += count;
      const auto make = [&](at::IntArrayRef sizes, uint64_t seed) {
        return normal(sizes, at::kBFloat16, seed).to(type).requires_grad_();
      };
      const std::vector<at::Tensor> inputs{make({num_rows, kIn}, 1), make({4, 7, kIn}, 2),
                                           make({4, 3, kIn}, 3)};
      const at::Tensor g = normal({num_rows, 10}, at::kBFloat16, 4);
      const at::Tensor y = grouped_product(inputs[0], counts, {inputs[1], inputs[2]});
      const auto gradients = torch::autograd::grad({y}, inputs, {g.to(type)});
      std::vector<at::Tensor> wide;
      for (const at::Tensor& t : inputs) {
        wide.push_back(t.detach().to(at::kDouble, false, /*copy=*/true).requires_grad_());
      }
      const at::Tensor expected = loop_of_groups(wide[0], counts, {wide[1], wide[2]});
      const auto expected_gradients = torch::autograd::grad({expected}, wide, {g.to(at::kDouble)});
      expect_near(y.detach(), expected.detach(), tolerance_of(type));
      for (size_t i = 0; i < wide.size(); ++i) {
        expect_near(gradients[i], expected_gradients[i], tolerance_of(type));
      }
    }
  }
}

TEST(GroupedProduct, PutsOffGradientsOfWeights) {
  const std::vector<int64_t> counts{3, 0, 2};
  const at::Tensor rows = normal({5, kIn}, at::kDouble, 1).requires_grad_();
  const at::Tensor weight = normal({3, 7, kIn}, at::kDouble, 2).requires_grad_();
  const at::Tensor at_once =
      torch::autograd::grad({grouped_product(rows, counts, {weight}).sum()}, {weight})[0];
  DeferredGradients later;
  {
    const DeferredGradients::Scope scope(later);
    grouped_product(rows, counts, {weight}).sum().backward();
  }
  EXPECT_TRUE(rows.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
  later.run();
  EXPECT_TRUE(weight.grad().equal(at_once));
}

TEST(GroupedProduct, RefusesCountsThatAreNotItsRows) {
  const at::Tensor rows = normal({5, kIn}, at::kDouble, 1);
  const at::Tensor weight = normal({2, 7, kIn}, at::kDouble, 2);
  EXPECT_THROW(grouped_product(rows, {2, 2}, {weight}), InternalError);
  EXPECT_THROW(grouped_product(rows, {2, 2, 1}, {weight}), InternalError);
}

TEST(ExpertOrder, RowsOfAnExpertAreInTheOrderOfTheirTokens) {
  const at::Tensor experts =
      at::tensor({2, 0, 1, 2, 2, 0}, at::kLong).view({3, 2});  // of each token
  const ExpertOrder order = order_by_expert(experts, 4);
  EXPECT_EQ(order.counts, (std::vector<int64_t>{2, 1, 3, 0}));
  EXPECT_TRUE(order.order.equal(at::tensor({1, 5, 2, 0, 3, 4}, at::kLong)));
  EXPECT_TRUE(order.place.equal(at::tensor({3, 0, 2, 4, 5, 1}, at::kLong)));
  EXPECT_THROW(order_by_expert(experts, 1), InternalError);
}

TEST(ExpertOrder, OnMetaExpertsHaveAsManyRowsUpToOne) {
  const at::Tensor experts = at::empty({5, 2}, at::TensorOptions(at::kLong).device(at::kMeta));
  EXPECT_EQ(order_by_expert(experts, 4).counts, (std::vector<int64_t>{3, 3, 2, 2}));
}

// To the experts and back is the sum of all weights times the token, with its gradients.
TEST(ExpertOrder, ThereAndBackIsASumByWeight) {
  const at::Tensor experts = at::tensor({3, 0, 1, 3, 0, 1, 3, 2}, at::kLong).view({4, 2});
  const ExpertOrder order = order_by_expert(experts, 5);
  const at::Tensor x = normal({4, 6}, at::kDouble, 1).requires_grad_();
  const at::Tensor weights = normal({4, 2}, at::kDouble, 2).requires_grad_();
  const at::Tensor factor = normal({5, 1}, at::kDouble, 3);  // what each expert multiplies by
  const at::Tensor of_rows = factor.index_select(0, experts.flatten().index_select(0, order.order));
  const at::Tensor y = sum_over_experts(rows_by_expert(x, order) * of_rows, weights, order);
  const at::Tensor expected =
      x * (weights * factor.flatten().index_select(0, experts.flatten()).view({4, 2})).sum(1, true);
  expect_near(y.detach(), expected.detach(), 1e-13);
  const at::Tensor g = normal({4, 6}, at::kDouble, 4);
  const auto ours = torch::autograd::grad({y}, {x, weights}, {g});
  const auto theirs = torch::autograd::grad({expected}, {x, weights}, {g});
  for (size_t i = 0; i < ours.size(); ++i) expect_near(ours[i], theirs[i], 1e-13);
}

}  // namespace
}  // namespace colossal::ops
