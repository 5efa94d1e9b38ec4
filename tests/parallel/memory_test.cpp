// Every tensor and sequence mode with gradients and weights in parts, and with activations computed
// again: the same numbers as the serial run.
#include <gtest/gtest.h>

#include "tests/parallel/uneven_training.h"
#include "tests/support/pairwise.h"

namespace colossal::test::memory_parity {
namespace {

constexpr int64_t kLlamaHeads = 6;

constexpr Strategy kMeshes[] = {
    {.dp = 3},
    {.dp = 2, .tp = 2, .tp_sequence = false},
    {.dp = 2, .tp = 3},
    {.tp = 4},
    {.sp = 3},
    {.dp = 2, .sp = 2},
    {.sp = 2, .tp = 2, .sequence_mode = SequenceMode::ulysses},
    {.dp = 2, .sp = 2, .tp = 2, .tp_sequence = false},
    {.dp = 4, .zero_group = 2},
    {.dp = 3, .sp = 2, .zero_group = 2},
    {.sp = 4, .zero_group = 2, .sequence_mode = SequenceMode::ulysses},
    {.dp = 2, .tp = 3, .zero_group = 1},
    {.dp = 2, .tp = 4, .zero_group = 1, .tensor_mode = TensorMode::two_d},
    {.tp = 4, .tensor_mode = TensorMode::two_d},
    {.dp = 2, .tp = 4, .tensor_mode = TensorMode::two_d},
    {.tp = 4, .tensor_mode = TensorMode::two_and_half_d},
    {.sp = 2, .tp = 4, .tensor_mode = TensorMode::two_d},
    {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2},
    {.sp = 2,
     .tp = 4,
     .tensor_mode = TensorMode::two_and_half_d,
     .sequence_mode = SequenceMode::ulysses},
    {.tp = 8, .tensor_mode = TensorMode::three_d},
};

struct Case {
  size_t mesh;
  bool llama;
  int zero;
  int recompute;  // 0: none, 1: selective, 2: full
  int64_t micro_batch;
  bool reduce_once_per_step;
  double dropout;
  int64_t table_rows;

  Strategy layout() const {
    Strategy layout = kMeshes[mesh];
    layout.zero = zero;
    layout.table_rows = table_rows;
    return layout;
  }
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_{}_recompute{}_micro{}{}_dropout{}", layout_name(c.layout()),
                     c.llama ? "llama" : "gpt2", c.recompute, c.micro_batch,
                     c.reduce_once_per_step ? "_whole" : "", c.dropout > 0 ? "on" : "off");
}

std::vector<Case> all_cases(int most_ranks = 8) {
  std::vector<Case> cases;
  for (size_t mesh = 0; mesh < std::size(kMeshes); ++mesh) {
    if (kMeshes[mesh].world_size() > most_ranks) continue;
    for (bool llama : {false, true}) {
      for (int zero : {1, 2, 3}) {
        for (int recompute : {0, 1, 2}) {
          for (int64_t micro_batch : {0, 5}) {
            for (bool whole : {false, true}) {
              if (whole && (zero == 1 || micro_batch == 0)) continue;
              if (zero == 1 && recompute == 0) continue;  // elsewhere
              const double dropout = recompute > 0 ? 0.2 : 0;
              for (int64_t table_rows : {0, 7}) {
                cases.push_back(
                    {mesh, llama, zero, recompute, micro_batch, whole, dropout, table_rows});
              }
            }
          }
        }
      }
    }
  }
  return cases;
}

class MemoryParity : public testing::TestWithParam<Case> {
 protected:
  static void expect_serial(at::ScalarType type, double tolerance) {
    const Case& c = GetParam();
    const int64_t llama_heads = c.llama ? kLlamaHeads : 0;
    TinyTraining training = uneven_of(llama_heads, c.dropout, type);
    training.layout = c.layout();
    training.micro_batch = c.micro_batch;
    training.reduce_once_per_step = c.reduce_once_per_step;
    training.order_known = c.recompute != 1;
    training.chunk_bytes = 12'000;
    training.window_bytes = 12'000;
    training.recompute.selective = c.recompute == 1;
    training.recompute.full_blocks = c.recompute == 2 ? memory::Recompute::kAllBlocks : 0;
    expect_same(train_tiny(training, training.layout.world_size()),
                serial(c.dropout, type, llama_heads), tolerance, training);
  }
};

TEST_P(MemoryParity, EqualsSerial) {
  expect_serial(at::kDouble, 1e-9);
}

class MemoryParityFp32 : public MemoryParity {};

TEST_P(MemoryParityFp32, EqualsSerial) {
  expect_serial(at::kFloat, 1e-4);
}

std::vector<double> settings_of(const Case& c) {
  return {static_cast<double>(c.mesh),        static_cast<double>(c.llama),
          static_cast<double>(c.zero),        static_cast<double>(c.recompute),
          static_cast<double>(c.micro_batch), static_cast<double>(c.reduce_once_per_step),
          static_cast<double>(c.table_rows)};
}

// Eight ranks take a minute of two cores; each mode has a mesh of fewer, but for 3D, which
// TensorGridParity has.
constexpr int kMostRanksOfFast = 6;
INSTANTIATE_TEST_SUITE_P(Layouts, MemoryParity,
                         testing::ValuesIn(pairwise(all_cases(kMostRanksOfFast), settings_of)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, MemoryParity, testing::ValuesIn(all_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(SlowLayouts, MemoryParityFp32,
                         testing::ValuesIn(pairwise(all_cases(), settings_of)), name_of);

}  // namespace
}  // namespace colossal::test::memory_parity
