// The layer alone: what the ranks that share a sequence compute together is what one rank computes,
// with fewer heads of keys than of queries.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>
#include <numeric>

#include "colossal/parallel/sequence/positions.h"
#include "colossal/parallel/sequence/ring.h"
#include "colossal/parallel/sequence/ulysses.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::sequence_attention {
namespace {

constexpr int64_t kBatch = 2, kSequence = 150, kHeads = 6, kKeyHeads = 2, kHeadSize = 16;
constexpr int64_t kFeatures = (kHeads + 2 * kKeyHeads) * kHeadSize;

struct Results {
  at::Tensor output, gradient;
  at::Tensor of_sinks{};  // their gradient
};

struct Setting {
  at::ScalarType type;
  double dropout;
  bool packed;  // several documents in each sequence
  bool causal = true;
  int64_t window = 0;
  bool capped = false, alibi = false, sinks = false, prefix = false;

  nn::AttentionOptions options() const {
    return {.heads = kHeads,
            .kv_heads = kKeyHeads,
            .head_size = kHeadSize,
            .scale = 0.4,
            .dropout = dropout,
            .causal = causal,
            .window = window,
            .soft_cap = capped ? 1.5 : 0,
            .alibi = alibi ? 0.5 : 0};
  }
  std::string name() const {
    return fmt::format(
        "{}, dropout {}, packed {}, causal {}, window {}, capped {}, alibi {}, sinks {}, prefix {}",
        c10::toString(type), dropout, packed, causal, window, capped, alibi, sinks, prefix);
  }
};

// The document of each position: runs of 37, shifted in the second sequence.
at::Tensor documents() {
  const at::Tensor shifts = at::tensor({0, 11}, at::kLong).unsqueeze(1);
  return (at::arange(kSequence, at::kLong) + shifts).floor_divide(37);
}

// The layer that `make` makes, for these positions of one sequence.
Results run_layer(const nn::MakeAttention& make, const at::Tensor& positions,
                  const Setting& setting) {
  const auto numbers = [&](int64_t features) {
    const at::Tensor all = at::arange(kBatch * kSequence * features, at::kDouble).sin_();
    return all.view({kBatch, kSequence, features}).index_select(1, positions).to(setting.type);
  };
  const nn::ParameterHandle sinks(std::make_shared<nn::Parameter>());
  sinks->tensor = at::linspace(-1, 2, kHeads, at::kDouble).to(setting.type).requires_grad_();
  const auto attention =
      make("attention", setting.options(), {.queries = {0, kHeads}, .keys = {0, kKeyHeads}},
           {.sinks = setting.sinks ? sinks : nn::ParameterHandle()});
  nn::StepContext context = nn::make_step_context(kBatch, positions.numel(), at::kCPU);
  context.tokens().whole_sequence = kSequence;
  context.tokens().positions = positions;
  context.training = true;
  if (setting.packed) context.tokens().documents = documents();
  if (setting.prefix) context.tokens().prefix_lengths = {60, 17};
  context.sample_ids = {7, 3};
  const at::Tensor qkv = numbers(kFeatures).requires_grad_();
  const at::Tensor output = attention->forward(qkv, {}, context);
  std::vector<at::Tensor> inputs{qkv};
  if (setting.sinks) inputs.push_back(sinks->tensor);
  const auto gradients = torch::autograd::grad({output}, inputs, {numbers(kHeads * kHeadSize)});
  return {output.detach(), gradients[0], setting.sinks ? gradients[1] : at::Tensor()};
}

void expect_near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  EXPECT_EQ(a.scalar_type(), b.scalar_type());
  const at::Tensor exact = b.to(at::kDouble);
  EXPECT_LE((a.to(at::kDouble) - exact).norm().item<double>(),
            tolerance * exact.norm().item<double>());
}

at::Tensor positions_of(SequenceMode mode, int ranks, int rank) {
  std::vector<at::Tensor> runs;
  for (const Range& run : parallel::positions_of_rank(mode, kSequence, ranks, rank)) {
    runs.push_back(at::arange(run.begin, run.end, at::kLong));
  }
  return at::cat(runs);
}

Results run_alone(const Setting& setting) {
  return run_layer(nn::make_dense_attention, at::arange(kSequence, at::kLong), setting);
}

void expect_equal_to_whole(SequenceMode mode, int ranks, const Setting& setting) {
  TRACED_CASE(fmt::format("{} ranks, {}", ranks, setting.name()));
  const double tolerance = setting.type == at::kDouble  ? 1e-13
                           : setting.type == at::kFloat ? 2e-6
                                                        : 1e-2;
  const Results whole = run_alone(setting);
  std::mutex mutex;
  at::Tensor of_sinks = at::zeros({kHeads}, setting.type);
  run_ranks(ranks, [&](comm::World& world) {
    std::vector<int> all(ranks);
    std::iota(all.begin(), all.end(), 0);
    const comm::Group group = world.group("sp", all);
    const at::Tensor positions = positions_of(mode, ranks, world.rank());
    const bool ring = mode == SequenceMode::ring;
    const Results here =
        run_layer((ring ? parallel::make_ring_attention : parallel::make_ulysses_attention)(group),
                  positions, setting);
    expect_near(here.output, whole.output.index_select(1, positions), tolerance);
    expect_near(here.gradient, whole.gradient.index_select(1, positions), tolerance);
    const std::lock_guard lock(mutex);
    if (setting.sinks) of_sinks.add_(here.of_sinks);
  });
  if (setting.sinks) expect_near(of_sinks, whole.of_sinks, tolerance);
}

void expect_equal_at_all_layouts(bool packed) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const double dropout : {0.0, 0.3}) {
      const Setting setting{type, dropout, packed};
      for (const int ranks : {2, 3, 4}) expect_equal_to_whole(SequenceMode::ring, ranks, setting);
      expect_equal_to_whole(SequenceMode::ulysses, kKeyHeads, setting);
    }
  }
}

TEST(SequenceAttention, EqualsTheWholeWithFewerHeadsOfKeys) {
  expect_equal_at_all_layouts(false);
}

// Each two settings meet.
std::vector<Setting> kinds() {
  std::vector<Setting> all;
  for (int bits = 0; bits < 128; ++bits) {
    const auto bit = [&](int place) { return (bits >> place & 1) == 1; };
    for (const int64_t window : {0, 20, 90}) {
      all.push_back({at::kDouble, bit(0) ? 0.3 : 0.0, bit(1), bit(2), window, bit(3), bit(4),
                     bit(5), bit(6)});
    }
  }
  return pairwise(all, [](const Setting& s) -> std::vector<double> {
    return {s.dropout,        double(s.packed), double(s.causal), double(s.window),
            double(s.capped), double(s.alibi),  double(s.sinks),  double(s.prefix)};
  });
}

TEST(SequenceAttention, OfEveryKindEqualsTheWhole) {
  for (const Setting& setting : kinds()) {
    for (const int ranks : {2, 4}) expect_equal_to_whole(SequenceMode::ring, ranks, setting);
    expect_equal_to_whole(SequenceMode::ulysses, 3, setting);
  }
}

TEST(SequenceAttention, KeepsDocumentsApart) {
  expect_equal_at_all_layouts(true);
  // The first document of the first sequence alone, and with the others behind it.
  const auto output = [](bool packed) { return run_alone({at::kDouble, 0, packed}).output[0]; };
  EXPECT_TRUE(output(true).narrow(0, 0, 37).equal(output(false).narrow(0, 0, 37)));
  EXPECT_FALSE(output(true).narrow(0, 37, 1).equal(output(false).narrow(0, 37, 1)));
}

}  // namespace
}  // namespace colossal::test::sequence_attention
