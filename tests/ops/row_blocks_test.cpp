#include "colossal/ops/row_blocks.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "colossal/base/error.h"
#include "tests/ops/tensors.h"

namespace colossal::ops::row_blocks_test {
namespace {

constexpr int64_t kVocabulary = 101, kFeatures = 12, kTokens = 37;

// Blocks of the rows of a table, each a leaf; one of them has no rows.
struct Blocks {
  std::vector<at::Tensor> leaves;
  std::vector<int64_t> begins;

  explicit Blocks(const at::Tensor& table) {
    for (const auto& [begin, end] : {std::pair{0, 40}, {40, 40}, {40, 99}, {99, 101}}) {
      leaves.push_back(table.narrow(0, begin, end - begin).clone().requires_grad_());
      begins.push_back(begin);
    }
  }
  ForEachBlock each() const {
    return [this](const VisitRows& visit) {
      for (size_t i = 0; i < leaves.size(); ++i) visit(leaves[i], begins[i]);
    };
  }
  // x's, if it is defined, and the table's, whole.
  std::vector<at::Tensor> gradients(const at::Tensor& y, const at::Tensor& x,
                                    const at::Tensor& upstream) const {
    std::vector<at::Tensor> inputs = leaves;
    if (x.defined()) inputs.push_back(x);
    std::vector<at::Tensor> found = torch::autograd::grad({y}, inputs, {upstream});
    const at::Tensor table = at::cat(std::vector(found.begin(), found.begin() + leaves.size()));
    return x.defined() ? std::vector{table, found.back()} : std::vector{table};
  }
};

TEST(RowBlocks, AreLookedUpAsTheWholeTable) {
  const at::Tensor tokens =
      at::arange(kTokens, at::kLong).mul(53).remainder(kVocabulary).view({1, -1});
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    const at::Tensor table = normal({kVocabulary, kFeatures}, type, 2).requires_grad_();
    const at::Tensor upstream = normal({1, kTokens, kFeatures}, type, 3);
    const at::Tensor expected = at::embedding(table, tokens);
    const Blocks blocks(table.detach());
    const at::Tensor found = look_up(blocks.each(), tokens);
    EXPECT_TRUE(at::equal(found, expected));
    EXPECT_TRUE(at::equal(blocks.gradients(found, {}, upstream)[0],
                          torch::autograd::grad({expected}, {table}, {upstream})[0]));
  }
}

TEST(RowBlocks, GiveTheCrossEntropyOfTheWholeTable) {
  const at::Tensor labels = at::arange(kTokens, at::kLong).mul(17).remainder(kVocabulary);
  labels.masked_fill_(at::arange(kTokens, at::kLong).remainder(4).eq(1), kIgnoredLabel);
  for (const at::ScalarType type : all_types()) {
    for (const int64_t logits_bytes : {kDefaultLogitsBytes, int64_t{9} * kVocabulary}) {
      SCOPED_TRACE(fmt::format("{}, {} bytes", c10::toString(type), logits_bytes));
      const at::Tensor table = normal({kVocabulary, kFeatures}, type, 2).requires_grad_();
      const at::Tensor x = normal({kTokens, kFeatures}, type, 4).requires_grad_();
      const at::Tensor bias = normal({kVocabulary}, type, 5).requires_grad_();
      const LogitOptions options{bias, 0.5, 2.0};
      const at::Tensor expected = linear_cross_entropy(x, table, labels, options);
      const at::Tensor upstream = at::full_like(expected, 0.37);
      const auto gradients = torch::autograd::grad({expected}, {table, x, bias}, {upstream});
      const Blocks blocks(table.detach());
      const at::Tensor found = linear_cross_entropy(x, blocks.each(), labels, kVocabulary, {},
                                                    nullptr, options, 0, logits_bytes);
      EXPECT_EQ(found.scalar_type(), expected.scalar_type());
      const auto of_bias = torch::autograd::grad({found}, {bias}, {upstream}, true);
      const auto of_blocks = blocks.gradients(found, x, upstream);
      const double tolerance = 2 * tolerance_of(type);
      expect_near(found, expected, tolerance);
      expect_near(of_blocks[0], gradients[0], tolerance);
      expect_near(of_blocks[1], gradients[1], tolerance);
      expect_near(of_bias[0], gradients[2], tolerance);
    }
  }
}

// What a low-rank adapter adds to logits is what its product would add to the table.
TEST(RowBlocks, TakeLowRankLogits) {
  constexpr int64_t kRank = 3;
  const at::Tensor labels = at::arange(kTokens, at::kLong).mul(17).remainder(kVocabulary);
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    const auto leaf = [&](at::IntArrayRef sizes, uint64_t seed) {
      return normal(sizes, type, seed).mul_(0.5).requires_grad_();
    };
    const at::Tensor table = normal({kVocabulary, kFeatures}, type, 2);
    const at::Tensor x = leaf({kTokens, kFeatures}, 4), down = leaf({kRank, kFeatures}, 6),
                     up = leaf({kVocabulary, kRank}, 7);
    const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
    const LogitOptions plain{.bias = {}, .scale = 0.5, .soft_cap = 2.0};
    const at::Tensor expected =
        linear_cross_entropy(wide(x), wide(table) + at::mm(wide(up), wide(down)), labels, plain);
    const auto gradients = torch::autograd::grad({expected}, {x, down, up});
    const Blocks blocks(table);
    const at::Tensor z = at::mm(x, down.t());
    const LogitOptions options{.bias = {}, .scale = 0.5, .soft_cap = 2.0, .z = z, .up = up};
    const at::Tensor found = linear_cross_entropy(x, blocks.each(), labels, kVocabulary, {},
                                                  nullptr, options, 0, int64_t{9} * kVocabulary);
    const auto found_gradients = torch::autograd::grad({found}, {x, down, up});
    const double tolerance = 2 * tolerance_of(type);
    expect_near(found, expected, tolerance);
    for (size_t i = 0; i < gradients.size(); ++i) {
      expect_near(found_gradients[i], gradients[i], tolerance);
    }
    expect_near(logits_from_products(at::mm(x, table.t()), options),
                logits_from_products(
                    at::mm(wide(x), (wide(table) + at::mm(wide(up), wide(down))).t()), plain),
                tolerance);
  }
}

TEST(RowBlocks, RefuseLabelsOutsideTheVocabulary) {
  const at::Tensor x = normal({2, kFeatures}, at::kFloat, 4);
  const Blocks blocks(normal({kVocabulary, kFeatures}, at::kFloat, 2));
  EXPECT_THROW(linear_cross_entropy(x, blocks.each(), at::tensor({3, 101}, at::kLong), kVocabulary),
               Error);
}

}  // namespace
}  // namespace colossal::ops::row_blocks_test
