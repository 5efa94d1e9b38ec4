// Grouped-query attention, rotary positions, fused products and SwiGLU at every layout: the same
// numbers as the serial run, and the bytes of the laws.
#include <gtest/gtest.h>

#include "colossal/layout/heads.h"
#include "colossal/layout/partition.h"
#include "tests/parallel/uneven_training.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::llama_parity {
namespace {

constexpr int64_t kHeads = 8;

std::vector<UnevenCase> all_cases() {
  std::vector<UnevenCase> cases;
  for (int zero : {0, 1}) {
    for (double dropout : {0.0, 0.2}) {
      const auto add = [&](int tp, bool tp_sequence, int sp, int dp, int64_t micro_batch) {
        const Strategy layout{
            .dp = dp, .sp = sp, .tp = tp, .zero = zero, .tp_sequence = tp_sequence};
        cases.push_back({layout, micro_batch, dropout, kHeads});
        if (sp == 1) return;
        cases.push_back(cases.back());
        cases.back().layout.sequence_mode = SequenceMode::ulysses;
      };
      for (bool tp_sequence : {false, true}) {
        for (int tp : {2, 3, 4}) add(tp, tp_sequence, 1, 1, 5);
        for (int tp : {2, 3, 4}) add(tp, tp_sequence, 1, 2, 0);
        for (int tp : {2, 3}) add(tp, tp_sequence, 2, 1, 4);
        add(2, tp_sequence, 2, 2, 4);
      }
      for (int sp : {2, 3, 4}) add(1, true, sp, 1, 5);
      add(1, true, 4, 2, 0);
      add(1, true, 1, 3, 0);
    }
  }
  return cases;
}

class LlamaParity : public UnevenParity {};

TEST_P(LlamaParity, Fp64EqualsSerial) {
  expect_serial(at::kDouble, 1e-9);
}

// In fp32 with the slow tests only.
class LlamaParityFp32 : public UnevenParity {};

TEST_P(LlamaParityFp32, EqualsSerial) {
  expect_serial(at::kFloat, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LlamaParity,
                         testing::ValuesIn(pairwise(all_cases(), uneven_settings)), uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, LlamaParity, testing::ValuesIn(all_cases()), uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, LlamaParityFp32, testing::ValuesIn(all_cases()),
                         uneven_name);

// The working weights are rounded to bf16, at every layout in the same way; sums differ in their
// order. The loss after some steps is that of fp64 but for such rounding.
TEST(Llama, Bf16LossesAreNearThoseOfFp64) {
  for (const auto& [tp, sp, mode] : {std::tuple{1, 1, SequenceMode::ring},
                                     {3, 1, SequenceMode::ring},
                                     {1, 4, SequenceMode::ulysses},
                                     {2, 2, SequenceMode::ring}}) {
    TRACED_CASE(fmt::format("tp {}, sp {}", tp, sp));
    TinyTraining training = uneven_llama(kHeads, 0, at::kBFloat16);
    training.gradient = at::kFloat;
    training.layout = {.sp = sp, .tp = tp, .sequence_mode = mode};
    const TinyResult result = train_tiny(training, tp * sp);
    const std::vector<double>& expected = serial(0, at::kDouble, kHeads).losses;
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(result.losses[step], expected[step], 5e-3 * expected[step]) << step;
    }
  }
}

std::map<comm::Reason, int64_t> sent_by_all(const TinyResult& result) {
  std::map<comm::Reason, int64_t> sent;
  for (const auto& traffic : result.traffic) {
    for (const auto& [key, bytes] : traffic) {
      EXPECT_EQ(bytes.law_bytes, bytes.wire_bytes) << comm::reason_name(key.reason);
      sent[key.reason] += bytes.law_bytes;
    }
  }
  return sent;
}

// Parameters begin at multiples of 64 bytes of a chunk, which travels as it is.
int64_t padded(int64_t elements) {
  return (elements + 7) / 8 * 8;
}

// docs/laws.md, "1D". Products side by side gather their input once. Over all ranks the all-reduce
// of what n ranks hold alike sends 2 (n-1) times it: keys' and values' weights by their replicas.
TEST(Llama, BytesOfSharedTensorsEqualTheLaws) {
  for (const int tp : {2, 3, 4}) {
    for (const bool tp_sequence : {false, true}) {
      TRACED_CASE(fmt::format("tp {}, tp_sequence {}", tp, tp_sequence));
      TinyTraining training = uneven_llama(kHeads, 0, at::kDouble);
      training.layout = {.tp = tp, .tp_sequence = tp_sequence};
      training.steps = 1;
      auto sent = sent_by_all(train_tiny(training, tp));
      const models::TransformerConfig& model = training.model;
      const int64_t layers = model.layers, hidden = model.hidden;
      const int64_t tokens = training.global_batch * training.sequence;
      const int64_t of_a_layer = tp_sequence ? 4 + 6 : 2 * (2 + 2);
      const int64_t of_the_ends = tp_sequence ? 2 + 2 : 2 * (1 + 1);
      EXPECT_EQ(
          sent[comm::Reason::tensor],
          (tp - 1) * ((of_a_layer * layers + of_the_ends) * tokens * hidden + 6 * tokens) * 8);
      const int64_t norms_and_row_biases = (2 * layers + 1 + layers) * padded(hidden);
      const int replicas = key_value_replicas(8, 2, tp);
      const int64_t rows = 2 * model.head_size / (tp / replicas);  // of each that a rank holds
      const int64_t keys_and_values =
          tp / replicas * layers * 2 * (padded(rows * hidden) + padded(rows));
      EXPECT_EQ(sent[comm::Reason::gradient],
                2 * 8 *
                    ((replicas - 1) * keys_and_values +
                     (tp_sequence ? (tp - 1) * norms_and_row_biases : 0)));
    }
  }
}

// docs/laws.md, "ring": keys and values of each block make sp - 1 hops forward, as many backward,
// and their gradients sp. They are already turned by their positions.
TEST(Llama, BytesOfTheRingEqualTheLaw) {
  for (const int sp : {2, 3, 4}) {
    TinyTraining training = uneven_llama(kHeads, 0, at::kDouble);
    training.layout.sp = sp;
    training.steps = 1;
    auto sent = sent_by_all(train_tiny(training, sp));
    const models::TransformerConfig& model = training.model;
    const int64_t keys_and_values =
        2 * training.global_batch * training.sequence * model.kv_heads * model.head_size * 8;
    EXPECT_EQ(sent[comm::Reason::sequence], model.layers * (2 * (sp - 1) + sp) * keys_and_values)
        << sp;
  }
}

// docs/laws.md, "Ulysses": every rank sends of its tokens the queries of the others' heads, and the
// keys and values that those see; results come back.
TEST(Llama, BytesOfUlyssesEqualTheLaw) {
  for (const int sp : {2, 3, 4}) {
    TinyTraining training = uneven_llama(kHeads, 0, at::kDouble);
    training.layout = {.sp = sp, .sequence_mode = SequenceMode::ulysses};
    training.steps = 1;
    auto sent = sent_by_all(train_tiny(training, sp));
    int64_t heads_sent = 0;
    for (int from = 0; from < sp; ++from) {
      const int64_t positions = Partition(training.sequence, sp).range(from).size();
      for (int to = 0; to < sp; ++to) {
        if (to == from) continue;
        const Range queries = Partition(8, sp).range(to);
        const int64_t keys = (queries.end - 1) / 4 - queries.begin / 4 + 1;
        heads_sent += positions * (queries.size() + 2 * keys);
        heads_sent += Partition(training.sequence, sp).range(to).size() *
                      Partition(8, sp).range(from).size();  // results
      }
    }
    const models::TransformerConfig& model = training.model;
    EXPECT_EQ(sent[comm::Reason::sequence],
              model.layers * 2 * training.global_batch * heads_sent * model.head_size * 8)
        << sp;
  }
}

}  // namespace
}  // namespace colossal::test::llama_parity
