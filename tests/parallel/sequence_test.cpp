// Sequence parallelism, alone and with everything else: the same numbers as the serial run, and the
// bytes of the laws.
#include <gtest/gtest.h>

#include <numeric>

#include "colossal/layout/zigzag.h"
#include "tests/parallel/uneven_training.h"
#include "tests/support/pairwise.h"

namespace colossal::test::sequence_parity {
namespace {

struct Case {
  SequenceMode mode;
  int sp;
  int tp;
  bool tp_sequence;
  int dp;
  int zero;
  int64_t micro_batch;
  double dropout;
};

const char* mode_name(SequenceMode mode) {
  return mode == SequenceMode::ring ? "ring" : "ulysses";
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_sp{}_tp{}{}_dp{}_zero{}_micro{}_dropout{}", mode_name(info.param.mode),
                     info.param.sp, info.param.tp, info.param.tp_sequence ? "_tokens" : "",
                     info.param.dp, info.param.zero, info.param.micro_batch,
                     info.param.dropout > 0 ? "on" : "off");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const SequenceMode mode : {SequenceMode::ring, SequenceMode::ulysses}) {
    for (int zero : {0, 1}) {
      for (double dropout : {0.0, 0.2}) {
        for (int sp : {2, 3, 4}) cases.push_back({mode, sp, 1, false, 1, zero, 5, dropout});
        cases.push_back({mode, 2, 1, false, 2, zero, 0, dropout});
        for (const bool tp_sequence : {false, true}) {
          cases.push_back({mode, 2, 2, tp_sequence, 1, zero, 0, dropout});
          cases.push_back({mode, 3, 2, tp_sequence, 1, zero, 4, dropout});
          cases.push_back({mode, 2, 2, tp_sequence, 2, zero, 4, dropout});
          cases.push_back({mode, 2, 3, tp_sequence, 1, zero, 0, dropout});
          // More ranks than Ulysses has heads for.
          if (mode == SequenceMode::ring) {
            cases.push_back({mode, 4, 3, tp_sequence, 1, zero, 0, dropout});
          }
        }
      }
    }
  }
  return cases;
}

TinyTraining training_of(const Case& layout, at::ScalarType type) {
  TinyTraining training = uneven(layout.dropout, type);
  training.sequence_mode = layout.mode;
  training.sp = layout.sp;
  training.tp = layout.tp;
  training.tp_sequence = layout.tp_sequence;
  training.zero = layout.zero;
  training.micro_batch = layout.micro_batch;
  return training;
}

class SequenceParity : public testing::TestWithParam<Case> {
 protected:
  static int ranks() { return GetParam().sp * GetParam().tp * GetParam().dp; }
};

TEST_P(SequenceParity, Fp64EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kDouble);
  expect_same(train_tiny(training, ranks()), serial(GetParam().dropout, at::kDouble), 1e-9,
              training);
}

// In fp32 with the slow tests only.
class SequenceParityFp32 : public SequenceParity {};

TEST_P(SequenceParityFp32, EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kFloat);
  expect_same(train_tiny(training, ranks()), serial(GetParam().dropout, at::kFloat), 1e-4,
              training);
}

std::vector<double> settings_of(const Case& c) {
  return {static_cast<double>(c.mode),        static_cast<double>(c.sp),
          static_cast<double>(c.tp),          static_cast<double>(c.tp_sequence),
          static_cast<double>(c.dp),          static_cast<double>(c.zero),
          static_cast<double>(c.micro_batch), c.dropout};
}

INSTANTIATE_TEST_SUITE_P(Layouts, SequenceParity,
                         testing::ValuesIn(pairwise(all_cases(), settings_of)), name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, SequenceParity, testing::ValuesIn(all_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, SequenceParityFp32, testing::ValuesIn(all_cases()),
                         name_of);

TEST(Sequence, AllLabelsOfOneShareIgnored) {
  TinyTraining training = uneven(0, at::kDouble);
  // Those of the first of two ranks: the first half, or the first and the last quarter.
  for (const SequenceMode mode : {SequenceMode::ulysses, SequenceMode::ring}) {
    const bool ring = mode == SequenceMode::ring;
    training.ignored = [ring](int64_t, int64_t position) {
      return ring ? position < 3 || position >= 8 : position < 5;
    };
    training.sp = 1;
    const TinyResult reference = train_tiny(training, 1);
    training.sequence_mode = mode;
    training.sp = 2;
    expect_same(train_tiny(training, 2), reference, 1e-9, training);
  }
}

// Of 2, 3 and 4 ranks, the pieces are of no size that a block of the kernel has.
TEST(Ring, LongSequencesThatDivideByNothing) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    TinyTraining training = uneven(0.2, type);
    training.model.n_positions = training.sequence = 331;
    training.global_batch = 2;
    training.steps = 2;
    const TinyResult reference = train_tiny(training, 1);
    for (const int sp : {2, 3, 4}) {
      SCOPED_TRACE(sp);
      training.sp = sp;
      expect_same(train_tiny(training, sp), reference, type == at::kDouble ? 1e-9 : 1e-4, training);
    }
    training.sp = 1;
  }
}

// Fewer positions than pieces: some ranks have one piece only.
TEST(Ring, ASequenceOfAsManyPositionsAsRanks) {
  TinyTraining training = uneven(0.2, at::kDouble);
  for (const int64_t sequence : {4, 5, 7}) {
    training.sequence = sequence;
    training.sp = 1;
    const TinyResult reference = train_tiny(training, 1);
    training.sp = 4;
    expect_same(train_tiny(training, 4), reference, 1e-9, training);
  }
}

TEST(Ring, TwoRunsGiveTheSameBits) {
  TinyTraining training = uneven(0.2, at::kFloat);
  training.sp = 3;
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
    training.sequence_mode = SequenceMode::ulysses;
    training.sp = sp;
    training.steps = 1;
    const std::vector<int64_t> sent = sent_for_sequences(train_tiny(training, sp));
    const models::gpt2::Config& model = training.model;
    const int64_t activation = training.global_batch * training.sequence * model.n_embd * 8;
    // Over all ranks (c-1)/c of 4 activations, forward and backward.
    EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), int64_t{0}),
              model.n_layer * 2 * 4 * activation * (sp - 1) / sp)
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
        SCOPED_TRACE(fmt::format("{}, sp {}, tp {}", c10::toString(type), sp, tp));
        TinyTraining training = uneven(0, type);
        training.sp = sp;
        training.tp = tp;
        training.steps = 1;
        training.micro_batch = 5;  // 5, 5 and 2 sequences
        const std::vector<int64_t> sent = sent_for_sequences(train_tiny(training, sp * tp));
        const models::gpt2::Config& model = training.model;
        const int64_t of_a_position = 2 * training.global_batch * model.n_embd / tp;
        const auto bytes = static_cast<int64_t>(c10::elementSize(type));
        for (int rank = 0; rank < sp; ++rank) {
          int64_t of_next = 0;
          for (const Range& run : zigzag_runs(training.sequence, sp, (rank + 1) % sp)) {
            of_next += run.size();
          }
          const int64_t blocks = of_a_position * (training.sequence - of_next) * bytes;
          const int64_t gradients = of_a_position * training.sequence * std::max<int64_t>(bytes, 4);
          for (int of_tp = 0; of_tp < tp; ++of_tp) {
            EXPECT_EQ(sent[rank * tp + of_tp], model.n_layer * (2 * blocks + gradients));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace colossal::test::sequence_parity
