// The layer alone: what the ranks of a ring compute together is what one rank computes, with fewer
// heads of keys than of queries.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "colossal/layout/zigzag.h"
#include "colossal/parallel/sequence/ring.h"
#include "tests/support/run_ranks.h"

namespace colossal::test {
namespace {

constexpr int64_t kBatch = 2, kSequence = 150, kHeads = 6, kKeyHeads = 2, kHeadSize = 16;
constexpr int64_t kFeatures = (kHeads + 2 * kKeyHeads) * kHeadSize;

struct Results {
  at::Tensor output, gradient;
};

// Attention to all that `make` gives, for these positions of one sequence.
Results run_layer(const nn::MakeAttention& make, const at::Tensor& positions, double dropout,
                  at::ScalarType type) {
  const auto numbers = [&](int64_t features) {
    const at::Tensor all = at::arange(kBatch * kSequence * features, at::kDouble).sin_();
    return all.view({kBatch, kSequence, features}).index_select(1, positions).to(type);
  };
  const auto attention = make("attention",
                              {.heads = kHeads,
                               .kv_heads = kKeyHeads,
                               .head_size = kHeadSize,
                               .scale = 0.4,
                               .dropout = dropout},
                              0);
  nn::StepContext context = nn::make_step_context(kBatch, positions.numel(), at::kCPU);
  context.whole_sequence = kSequence;
  context.positions = positions;
  context.training = true;
  context.sample_ids = {7, 3};
  const at::Tensor qkv = numbers(kFeatures).requires_grad_();
  const at::Tensor output = attention->forward(qkv, context);
  return {output.detach(),
          torch::autograd::grad({output}, {qkv}, {numbers(kHeads * kHeadSize)})[0]};
}

void expect_near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  EXPECT_EQ(a.scalar_type(), b.scalar_type());
  const at::Tensor exact = b.to(at::kDouble);
  EXPECT_LE((a.to(at::kDouble) - exact).norm().item<double>(),
            tolerance * exact.norm().item<double>());
}

TEST(RingAttention, EqualsTheWholeWithFewerHeadsOfKeys) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kDouble ? 1e-13 : type == at::kFloat ? 2e-6 : 1e-2;
    for (const double dropout : {0.0, 0.3}) {
      const Results whole =
          run_layer(nn::make_dense_attention, at::arange(kSequence, at::kLong), dropout, type);
      for (const int ranks : {2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, dropout {}", c10::toString(type), ranks, dropout));
        run_ranks(ranks, [&](comm::World& world) {
          std::vector<int> all(ranks);
          std::iota(all.begin(), all.end(), 0);
          const comm::Group group = world.group("sp", all);
          std::vector<at::Tensor> runs;
          for (const Range& run : zigzag_runs(kSequence, ranks, world.rank())) {
            runs.push_back(at::arange(run.begin, run.end, at::kLong));
          }
          const at::Tensor positions = at::cat(runs);
          const Results here =
              run_layer(parallel::make_ring_attention(group), positions, dropout, type);
          expect_near(here.output, whole.output.index_select(1, positions), tolerance);
          expect_near(here.gradient, whole.gradient.index_select(1, positions), tolerance);
        });
      }
    }
  }
}

}  // namespace
}  // namespace colossal::test
