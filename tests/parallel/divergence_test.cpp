// The divergence of distributions whose vocabulary several ranks share: that of one rank, with the
// bytes of its law.
#include "colossal/ops/loss/divergence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "colossal/comm/law.h"
#include "colossal/parallel/tensor/vocabulary.h"
#include "tests/support/run_ranks.h"

namespace colossal::parallel {
namespace {

constexpr int64_t kTokens = 7, kRows = 23;

at::Tensor logits(double step) {
  return (at::arange(kTokens * kRows, at::kDouble) * step).sin().view({kTokens, kRows}) * 3;
}

struct Results {
  at::Tensor divergences, gradient;
};

Results results_of(const at::Tensor& student, const at::Tensor& teacher, double beta,
                   const ops::VocabularyShard* shard = nullptr) {
  const at::Tensor x = student.clone().set_requires_grad(true);
  const at::Tensor found = ops::divergence(x, teacher, beta, shard);
  const at::Tensor weights = at::arange(1, kTokens + 1, at::kDouble);
  return {found.detach(), torch::autograd::grad({(found * weights).sum()}, {x}).front()};
}

// The formula as it stands, with gradients by autograd.
Results expected_of(const at::Tensor& student, const at::Tensor& teacher, double beta) {
  const at::Tensor x = student.clone().set_requires_grad(true);
  const at::Tensor p = x.log_softmax(1), q = teacher.log_softmax(1);
  const auto divergence = [](const at::Tensor& a, const at::Tensor& b) {
    return (a.exp() * (a - b)).sum(1);
  };
  at::Tensor found = beta == 0 ? divergence(q, p) : divergence(p, q);
  if (beta > 0 && beta < 1) {
    const at::Tensor mixture = ((1 - beta) * p.exp() + beta * q.exp()).log();
    found = beta * divergence(q, mixture) + (1 - beta) * divergence(p, mixture);
  }
  const at::Tensor weights = at::arange(1, kTokens + 1, at::kDouble);
  return {found.detach(), torch::autograd::grad({(found * weights).sum()}, {x}).front()};
}

void expect_near(const Results& found, const Results& expected) {
  EXPECT_LE((found.divergences - expected.divergences).abs().max().item<double>(), 1e-12);
  EXPECT_LE((found.gradient - expected.gradient).abs().max().item<double>(), 1e-12);
}

class Divergence : public testing::TestWithParam<double> {};

TEST_P(Divergence, IsItsFormula) {
  expect_near(results_of(logits(0.7), logits(0.3), GetParam()),
              expected_of(logits(0.7), logits(0.3), GetParam()));
}

TEST_P(Divergence, OverRanksIsThatOfOneAndSendsItsLaw) {
  constexpr int kRanks = 3;
  const Results whole = results_of(logits(0.7), logits(0.3), GetParam());
  test::run_ranks(kRanks, [&](comm::World& world) {
    const comm::Group group = world.group("tp", {0, 1, 2});
    const ops::VocabularyShard shard = vocabulary_shard(kRows, group);
    const int64_t here = shard.begin + shard.largest > kRows ? kRows - shard.begin : shard.largest;
    const auto part = [&](const at::Tensor& x) { return x.narrow(1, shard.begin, here); };
    world.ledger().reset();
    const Results found = results_of(part(logits(0.7)), part(logits(0.3)), GetParam(), &shard);
    int64_t law = 0;
    for (const int64_t numbers : {2 * kTokens, 4 * kTokens, 2 * kTokens}) {
      law += comm::law::all_reduce(numbers, kRanks, world.rank(), 8);
    }
    const comm::Traffic booked = world.ledger().entries().at({"tp", comm::Reason::tensor});
    EXPECT_EQ(booked.law_bytes, law);
    EXPECT_EQ(booked.wire_bytes, law);
    expect_near(found, {whole.divergences, part(whole.gradient)});
  });
}

TEST_P(Divergence, HasAResultOnMeta) {
  const at::Tensor x =
      at::empty({kTokens, kRows}, at::TensorOptions(at::kMeta)).set_requires_grad(true);
  const at::Tensor found = ops::divergence(x, at::empty_like(x), GetParam());
  EXPECT_EQ(found.sizes(), at::IntArrayRef({kTokens}));
  EXPECT_EQ(torch::autograd::grad({found.sum()}, {x}).front().sizes(), x.sizes());
}

INSTANTIATE_TEST_SUITE_P(Betas, Divergence, testing::Values(0.0, 0.3, 1.0));

}  // namespace
}  // namespace colossal::parallel
