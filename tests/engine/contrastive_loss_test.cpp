// The gradients of the comparison of images and texts against autograd's, of more rows than are
// compared at once.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "colossal/comm/world.h"
#include "colossal/data/pair_fields.h"
#include "colossal/engine/contrastive_loss.h"

namespace colossal::test::contrastive_loss {
namespace {

constexpr int64_t kRows = 2100, kFeatures = 3;

using Loss = models::TextTower::Loss;

at::Tensor leaf(double step) {
  return (at::arange(kRows * kFeatures, at::kDouble) * step)
      .sin()
      .view({kRows, kFeatures})
      .requires_grad_(true);
}

// As the papers have them: CLIP's pseudocode (Figure 3), SigLIP's Algorithm 1; sums over pairs.
at::Tensor formula(Loss loss, const at::Tensor& logits) {
  const at::Tensor own = at::arange(kRows, at::kLong);
  const auto sum = at::Reduction::Sum;
  if (loss == Loss::softmax) {
    return (at::cross_entropy_loss(logits, own, {}, sum) +
            at::cross_entropy_loss(logits.t(), own, {}, sum)) /
           2;
  }
  const at::Tensor signs = 2 * at::eye(kRows, at::kDouble) - 1;
  return -at::log_sigmoid(signs * logits).sum();
}

TEST(ContrastiveLoss, GradientsAreThoseOfTheFormula) {
  const auto world = comm::single_world();
  const ParallelContext alone(*world, {});
  for (const Loss loss : {Loss::softmax, Loss::sigmoid}) {
    const at::Tensor images = leaf(0.37), texts = leaf(0.91);
    const at::Tensor scale = at::full({}, 0.7, at::kDouble).requires_grad_(true);
    const at::Tensor bias = at::full({}, -1.3, at::kDouble).requires_grad_(true);
    const at::Tensor logits = at::matmul(images, texts.t()) * at::exp(scale) + bias;
    const at::Tensor expected = formula(loss, logits);
    torch::autograd::backward({expected}, {});
    // Two batches, of which the first has no rows.
    std::vector<data::Batch> batches(2);
    batches[1].sample_ids.resize(kRows);
    add_pair_gradients(batches, {{images, texts, scale, bias}},
                       {.features = kFeatures, .loss = loss}, at::kDouble, alone);
    const data::Batch& batch = batches[1];
    const auto expect_close = [&](const at::Tensor& found, const at::Tensor& wanted) {
      EXPECT_LE((found - wanted).norm().item<double>(), 1e-10 * (1 + wanted.norm().item<double>()));
    };
    expect_close(batch.at(data::kPairLosses).sum(), expected);
    expect_close(batch.at(data::kImageGradients), images.grad());
    expect_close(batch.at(data::kTextGradients), texts.grad());
    expect_close(batch.at(data::kScaleGradients).sum(), scale.grad());
    expect_close(batch.at(data::kBiasGradients).sum(), bias.grad());
    const at::Tensor right = logits.argmax(1).eq(at::arange(kRows, at::kLong));
    expect_close(batch.at(data::kPairMatches), right.to(at::kDouble));
  }
}

}  // namespace
}  // namespace colossal::test::contrastive_loss
