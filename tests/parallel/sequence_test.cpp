// Sequence parallelism, alone and with everything else: the same numbers as the serial run, and the
// bytes of the laws.
#include <gtest/gtest.h>

#include <numeric>

#include "colossal/layout/zigzag.h"
#include "tests/parallel/uneven_training.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::sequence_parity {
namespace {

std::vector<UnevenCase> all_cases() {
  std::vector<UnevenCase> cases;
  for (const SequenceMode mode : {SequenceMode::ring, SequenceMode::ulysses}) {
    for (int zero : {0, 1}) {
      for (double dropout : {0.0, 0.2}) {
        const auto add = [&](int sp, int tp, bool tp_sequence, int dp, int64_t micro_batch) {
          cases.push_back({{.dp = dp,
                            .sp = sp,
                            .tp = tp,
                            .zero = zero,
                            .tp_sequence = tp_sequence,
                            .sequence_mode = mode},
                           micro_batch,
                           dropout});
        };
        for (int sp : {2, 3, 4}) add(sp, 1, false, 1, 5);
        add(2, 1, false, 2, 0);
        for (const bool tp_sequence : {false, true}) {
          add(2, 2, tp_sequence, 1, 0);
          add(3, 2, tp_sequence, 1, 4);
          add(2, 2, tp_sequence, 2, 4);
          add(2, 3, tp_sequence, 1, 0);
          // More ranks than Ulysses has heads for.
          if (mode == SequenceMode::ring) add(4, 3, tp_sequence, 1, 0);
        }
      }
    }
  }
  return cases;
}

class SequenceParity : public UnevenParity {};

TEST_P(SequenceParity, Fp64EqualsSerial) {
  expect_serial(at::kDouble, 1e-9);
}

// In fp32 with the slow tests only.
class SequenceParityFp32 : public UnevenParity {};

TEST_P(SequenceParityFp32, EqualsSerial) {
  expect_serial(at::kFloat, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Layouts, SequenceParity,
                         testing::ValuesIn(pairwise(all_cases(), uneven_settings)), uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, SequenceParity, testing::ValuesIn(all_cases()),
                         uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, SequenceParityFp32, testing::ValuesIn(all_cases()),
                         uneven_name);

TEST(Sequence, AllLabelsOfOneShareIgnored) {
  TinyTraining training = uneven(0, at::kDouble);
  // Those of the first of two ranks: the first half, or the first and the last quarter.
  for (const SequenceMode mode : {SequenceMode::ulysses, SequenceMode::ring}) {
    const bool ring = mode == SequenceMode::ring;
    training.ignored = [ring](int64_t, int64_t position) {
      return ring ? position < 3 || position >= 8 : position < 5;
    };
    training.layout.sp = 1;
    const TinyResult reference = train_tiny(training, 1);
    training.layout = {.sp = 2, .sequence_mode = mode};
    expect_same(train_tiny(training, 2), reference, 1e-9, training);
  }
}

// Of 2, 3 and 4 ranks, the pieces are of no size that a block of the kernel has.
TEST(Ring, LongSequencesThatDivideByNothing) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    TinyTraining training = uneven(0.2, type);
    training.model.positions = training.sequence = 331;
    training.global_batch = 2;
    training.steps = 2;
    const TinyResult reference = train_tiny(training, 1);
    for (const int sp : {2, 3, 4}) {
      TRACED_CASE(sp);
      training.layout.sp = sp;
      expect_same(train_tiny(training, sp), reference, type == at::kDouble ? 1e-9 : 1e-4, training);
    }
    training.layout.sp = 1;
  }
}

// Fewer positions than pieces: some ranks have one piece only.
TEST(Ring, ASequenceOfAsManyPositionsAsRanks) {
  TinyTraining training = uneven(0.2, at::kDouble);
  for (const int64_t sequence : {4, 5, 7}) {
    training.sequence = sequence;
    training.layout.sp = 1;
    const TinyResult reference = train_tiny(training, 1);
    training.layout.sp = 4;
    expect_same(train_tiny(training, 4), reference, 1e-9, training);
  }
}

TEST(Ring, TwoRunsGiveTheSameBits) {
  TinyTraining training = uneven(0.2, at::kFloat);
  training.layout.sp = 3;
  const TinyResult a = train_tiny(training, 3), b = train_tiny(training, 3);
  EXPECT_EQ(a.losses, b.losses);
  for (const auto& [name, weight] : a.weights) {
    EXPECT_TRUE(at::equal(b.weights.at(name), weight)) << name;
  }
}

// By rank, for Reason::sequence.
std::vector<int64_t> sent_for_sequences(const TinyResult& result) {
  std::vector<int64_t> sent;
  for (const auto& traffic : result.traffic) {
    sent.push_back(0);
    for (const auto& [key, bytes] : traffic) {
      EXPECT_EQ(bytes.law_bytes, bytes.wire_bytes) << comm::reason_name(key.reason);
      if (key.reason == comm::Reason::sequence) sent.back() += bytes.law_bytes;
    }
  }
  return sent;
}

// docs/laws.md, "Ulysses": what a rank has of queries, keys, values and results, but its own heads.
TEST(Sequence, BytesOfUlyssesEqualTheLaw) {
  for (const int sp : {2, 3}) {  // the heads divide by both, the positions by 2
    TinyTraining training = uneven(0, at::kDouble);
    training.layout = {.sp = sp, .sequence_mode = SequenceMode::ulysses};
    training.steps = 1;
    const std::vector<int64_t> sent = sent_for_sequences(train_tiny(training, sp));
    const models::TransformerConfig& model = training.model;
    const int64_t activation = training.global_batch * training.sequence * model.hidden * 8;
    // Over all ranks (c-1)/c of 4 activations, forward and backward.
    EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), int64_t{0}),
              model.layers * 2 * 4 * activation * (sp - 1) / sp)
        << sp;
  }
}

// docs/laws.md, "ring". A block is a rank's keys and values: n_j positions of rank j, 2 b n_j times
// the hidden size of keys. In c-1 hops a rank sends its own block and those of the c-2 ranks before
// it, all but that of its next rank; forward and backward. The gradients of all c blocks pass each
// rank, in the type of the sums. So rank r sends
//   2 (K - k_{r+1}) + D,  k_j the bytes of block j, K = sum k_j, D = K times the ratio of types,
// and when even K = 2 r S, K - k = 2 r (c-1)/c S.
TEST(Ring, BytesEqualTheLaw) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const int sp : {2, 3, 4}) {
      for (const int tp : {1, 2}) {
        TRACED_CASE(fmt::format("{}, sp {}, tp {}", c10::toString(type), sp, tp));
        TinyTraining training = uneven(0, type);
        training.layout = {.sp = sp, .tp = tp};
        training.steps = 1;
        training.micro_batch = 5;  // 5, 5 and 2 sequences
        const std::vector<int64_t> sent = sent_for_sequences(train_tiny(training, sp * tp));
        const models::TransformerConfig& model = training.model;
        const int64_t of_a_position = 2 * training.global_batch * model.hidden / tp;
        const auto bytes = static_cast<int64_t>(c10::elementSize(type));
        for (int rank = 0; rank < sp; ++rank) {
          int64_t of_next = 0;
          for (const Range& run : zigzag_runs(training.sequence, sp, (rank + 1) % sp)) {
            of_next += run.size();
          }
          const int64_t blocks = of_a_position * (training.sequence - of_next) * bytes;
          const int64_t gradients = of_a_position * training.sequence * std::max<int64_t>(bytes, 4);
          for (int of_tp = 0; of_tp < tp; ++of_tp) {
            EXPECT_EQ(sent[rank * tp + of_tp], model.layers * (2 * blocks + gradients));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace colossal::test::sequence_parity
