// Tensor parallelism in two, two and a half, and three dimensions: the same numbers as the serial
// run, in combination with the rest.
#include <gtest/gtest.h>

#include "colossal/layout/partition.h"
#include "tests/parallel/uneven_training.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::tensor_grid_parity {
namespace {

constexpr int64_t kLlamaHeads = 6;

// A micro-batch of 5, and the 2 that are then left, do not divide, and leave ranks without a
// sequence.
std::vector<UnevenCase> all_cases() {
  std::vector<UnevenCase> cases;
  for (const int64_t llama_heads : {int64_t{0}, kLlamaHeads}) {
    for (int zero : {0, 1}) {
      for (double dropout : {0.0, 0.2}) {
        const auto add = [&](TensorMode mode, int tp, int depth, int sp, int dp,
                             int64_t micro_batch) {
          Strategy layout{
              .dp = dp, .sp = sp, .tp = tp, .zero = zero, .tensor_mode = mode, .tp_depth = depth};
          for (SequenceMode sequence_mode : {SequenceMode::ring, SequenceMode::ulysses}) {
            layout.sequence_mode = sequence_mode;
            cases.push_back({layout, micro_batch, dropout, llama_heads});
            if (sp == 1) break;
          }
        };
        for (int64_t micro_batch : {0, 5}) {
          add(TensorMode::two_d, 4, 1, 1, 1, micro_batch);
          add(TensorMode::two_and_half_d, 4, 1, 1, 1, micro_batch);
          add(TensorMode::two_and_half_d, 8, 2, 1, 1, micro_batch);
          add(TensorMode::three_d, 8, 1, 1, 1, micro_batch);
        }
        add(TensorMode::two_d, 9, 1, 1, 1, 5);
        add(TensorMode::two_d, 4, 1, 2, 1, 5);
        add(TensorMode::two_d, 4, 1, 1, 2, 0);
        add(TensorMode::two_and_half_d, 4, 1, 2, 1, 0);
        add(TensorMode::two_and_half_d, 4, 1, 1, 2, 5);
      }
    }
  }
  return cases;
}

TinyTraining uneven(bool llama, double dropout, at::ScalarType type) {
  return uneven_of(llama ? kLlamaHeads : 0, dropout, type);
}

const TinyResult& serial(bool llama, double dropout, at::ScalarType type) {
  return test::serial(dropout, type, llama ? kLlamaHeads : 0);
}

class TensorGridParity : public UnevenParity {};

TEST_P(TensorGridParity, Fp64EqualsSerial) {
  expect_serial(at::kDouble, 1e-9);
}

// In fp32 with the slow tests only.
class TensorGridParityFp32 : public UnevenParity {};

TEST_P(TensorGridParityFp32, EqualsSerial) {
  expect_serial(at::kFloat, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Layouts, TensorGridParity,
                         testing::ValuesIn(pairwise(all_cases(), uneven_settings)), uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, TensorGridParity, testing::ValuesIn(all_cases()),
                         uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, TensorGridParityFp32, testing::ValuesIn(all_cases()),
                         uneven_name);

// All labels of the sequences of one row of ranks are ignored, and then all there are.
TEST(TensorGrid, LabelsIgnoredInPartAndAtAll) {
  for (const int64_t first : {int64_t{6}, int64_t{0}}) {
    TinyTraining training = uneven(false, 0, at::kDouble);
    training.ignored = [=](int64_t sample, int64_t) { return sample >= first; };
    const TinyResult reference = train_tiny(training, 1);
    for (const auto& [mode, tp] : {std::pair{TensorMode::two_d, 4}, {TensorMode::three_d, 8}}) {
      training.layout = {.tp = tp, .tensor_mode = mode};
      expect_same(train_tiny(training, tp), reference, 1e-9, training);
      training.layout.tp = 1;
    }
  }
}

// Sums run in the other order and are rounded to bf16 at other places; the losses stay near.
TEST(TensorGrid, Bf16LossesAreNearThoseOfFp64) {
  for (const bool llama : {false, true}) {
    for (const auto& [mode, tp] : {std::pair{TensorMode::two_d, 4}, {TensorMode::three_d, 8}}) {
      TinyTraining training = uneven(llama, 0, at::kBFloat16);
      training.gradient = at::kFloat;
      training.layout = {.tp = tp, .tensor_mode = mode};
      const TinyResult result = train_tiny(training, tp);
      const std::vector<double>& expected = serial(llama, 0, at::kDouble).losses;
      for (size_t step = 0; step < expected.size(); ++step) {
        EXPECT_NEAR(result.losses[step], expected[step], 5e-3 * expected[step]) << step;
      }
    }
  }
}

// docs/laws.md, "2D, 2.5D" and "3D". Elements of a training step's tensors, and what all ranks
// together send of them: a broadcast, a gather or a sum over n ranks (n-1) times a tensor, an
// all-reduce 2 (n-1) times.
struct Sizes {
  struct Product {
    int64_t inputs, outputs;
  };
  // A vector of `times` features, cut in whole units of so many.
  struct Bias {
    int64_t features, unit, times;
  };
  int64_t tokens, hidden, vocabulary, layers;
  std::vector<Product> products;  // of a layer
  std::vector<Bias> biases;       // ... that go with the inner features
  int64_t statistics;             // of a norm, a token
  int64_t vectors;                // of hidden features, in all layers and outside
  int64_t positions;
  bool tied;
  int64_t table_passes;  // how often the head's table comes together or its gradient goes apart
};

Sizes sizes_of(const TinyTraining& training) {
  const int64_t tokens = training.global_batch * training.sequence;
  const int64_t table_passes = training.layout.table_rows > 0 ? 3 : 2;
  const models::TransformerConfig& model = training.model;
  const int64_t h = model.hidden, f = model.inner;
  if (model.gated) {
    const int64_t head = model.head_size, queries = model.query_features();
    const int64_t keys = model.key_features();
    return {.tokens = tokens,
            .hidden = h,
            .vocabulary = model.vocabulary,
            .layers = model.layers,
            .products = {{h, queries + 2 * keys}, {queries, h}, {h, 2 * f}, {f, h}},
            .biases = {{queries, head, 1}, {keys, head, 1}, {keys, head, 1}},
            .statistics = 1,
            .vectors = 3 * model.layers + 1,
            .positions = 0,
            .tied = false,
            .table_passes = table_passes};
  }
  return {.tokens = tokens,
          .hidden = h,
          .vocabulary = model.vocabulary,
          .layers = model.layers,
          .products = {{h, 3 * h}, {h, h}, {h, f}, {f, h}},
          .biases = {{h, h / model.heads, 3}, {f, 1, 1}},
          .statistics = 2,
          .vectors = 6 * model.layers + 2,
          .positions = model.positions,
          .tied = true,
          .table_passes = table_passes};
}

// Parameters begin at multiples of 64 bytes of a chunk, which travels as it is.
int64_t padded(int64_t elements) {
  return (elements + 7) / 8 * 8;
}

std::vector<int64_t> parts_of(int64_t size, int64_t parts, int64_t unit = 1) {
  return Partition(size, static_cast<int>(parts), unit).counts();
}

// Of what each part of the features has and several ranks hold alike.
int64_t replicated_parameters(const Sizes& of, int q) {
  int64_t sum = 0;
  for (const int64_t part : parts_of(of.hidden, q)) {
    sum += of.vectors * padded(part) + padded(of.positions * part);
  }
  for (const Sizes::Bias& bias : of.biases) {
    for (const int64_t part : parts_of(bias.features, q, bias.unit)) {
      sum += of.layers * padded(bias.times * part);
    }
  }
  return sum;
}

// What changes its place when a matrix of rows x columns, cut q x q, is transposed block by block.
int64_t off_diagonal(int64_t rows, int64_t columns, int q) {
  int64_t sum = rows * columns;
  for (int i = 0; i < q; ++i) {
    sum -= Partition(rows, q).range(i).size() * Partition(columns, q).range(i).size();
  }
  return sum;
}

int64_t law_of_squares(const Sizes& of, int64_t q, int64_t depth) {
  int64_t sum = 0;
  for (const Sizes::Product& product : of.products) {
    sum += of.layers * 3 * (q - 1) *
           (of.tokens * product.inputs + depth * product.inputs * product.outputs);
  }
  const int64_t activation = of.tokens * of.hidden, table = of.vocabulary * of.hidden;
  const int64_t norms = 2 * of.layers + 1;
  sum += norms * 2 * 2 * (q - 1) * of.statistics * of.tokens;
  sum += 2 * (q - 1) * activation;                                      // embedding
  sum += (q - 1) * (2 * activation + of.table_passes * depth * table);  // head
  if (of.tied) {
    sum += of.table_passes * depth * off_diagonal(of.vocabulary, of.hidden, static_cast<int>(q));
  }
  sum += 2 * (q - 1) * 3 * of.tokens;    // cross-entropy
  return sum + 2 * (q * depth - 1) * q;  // the loss
}

int64_t law_of_a_cube(const Sizes& of, const TinyTraining& training, int64_t q) {
  int64_t sum = 0;
  for (const Sizes::Product& product : of.products) {
    sum += of.layers * (q - 1) *
           (3 * of.tokens * product.inputs + 3 * product.inputs * product.outputs +
            2 * of.tokens * product.outputs);
  }
  const int64_t activation = of.tokens * of.hidden, table = of.vocabulary * of.hidden;
  const int64_t norms = 2 * of.layers + 1;
  sum += norms * 2 * 2 * (q - 1) * of.statistics * of.tokens;
  sum += 2 * (q * q - 1) * activation;                                    // embedding
  sum += (q - 1) * (2 * activation + of.table_passes * (q + 1) * table);  // head
  for (const int64_t sequences : parts_of(training.global_batch, q)) {
    sum += 2 * training.sequence * off_diagonal(sequences, of.hidden, static_cast<int>(q));
  }
  sum += 2 * (q - 1) * 3 * of.tokens;  // cross-entropy
  return sum + 2 * (q * q - 1) * q;    // the loss
}

TEST(TensorGrid, BytesEqualTheLaws) {
  struct Mode {
    TensorMode mode;
    int q, depth;
  };
  for (const Mode& mode : {Mode{TensorMode::two_d, 2, 1},
                           {TensorMode::two_d, 3, 1},
                           {TensorMode::two_and_half_d, 2, 2},
                           {TensorMode::three_d, 2, 1}}) {
    for (const bool llama : {false, true}) {
      for (const int64_t global_batch : {12, 5}) {
        if (llama && mode.q == 3) continue;  // its two heads of keys would be held twice
        TinyTraining training = uneven(llama, 0, at::kDouble);
        training.global_batch = global_batch;
        training.layout = {.tensor_mode = mode.mode, .tp_depth = mode.depth};
        const bool cube = mode.mode == TensorMode::three_d;
        training.layout.tp = mode.q * mode.q * (cube ? mode.q : mode.depth);
        training.steps = 1;
        training.layout.table_rows = global_batch == 5 ? 3 : 0;  // with the short batch, in blocks
        TRACED_CASE(fmt::format("{} q {} depth {} llama {} batch {}", tensor_mode_name(mode.mode),
                                mode.q, mode.depth, llama, global_batch));
        const TinyResult result = train_tiny(training, training.layout.tp);
        std::map<comm::Reason, int64_t> sent;
        for (const auto& traffic : result.traffic) {
          for (const auto& [key, bytes] : traffic) {
            EXPECT_EQ(bytes.law_bytes, bytes.wire_bytes) << key.axis;
            sent[key.reason] += bytes.law_bytes;
          }
        }
        const Sizes of = sizes_of(training);
        EXPECT_EQ(sent[comm::Reason::tensor], 8 * (cube ? law_of_a_cube(of, training, mode.q)
                                                        : law_of_squares(of, mode.q, mode.depth)));
        const int64_t alike = cube ? mode.q * mode.q : mode.q * mode.depth;
        if (mode.depth == 1) {
          EXPECT_EQ(sent[comm::Reason::gradient],
                    8 * 2 * (alike - 1) * replicated_parameters(of, mode.q));
        }
      }
    }
  }
}

}  // namespace
}  // namespace colossal::test::tensor_grid_parity
