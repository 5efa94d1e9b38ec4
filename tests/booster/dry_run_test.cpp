// A dry run is the program itself on meta tensors: it books the bytes that the real one sends.
#include <gtest/gtest.h>

#include "colossal/ops/meta_kernels.h"
#include "colossal/parallel/builder.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

using Traffic = std::map<comm::Ledger::Key, int64_t>;

Traffic dry_traffic(const TinyTraining& training, int rank, int ranks) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(rank, ranks);
  const ParallelContext context(*world, strategy_of(training, ranks), at::kMeta);
  const auto build = parallel::make_builder(context, sharding_of(training));
  const auto model = make_model(training, *build);
  EngineConfig config{.total_steps = training.steps, .global_batch = training.global_batch};
  const at::ScalarType master = training.compute == at::kDouble ? at::kDouble : at::kFloat;
  config.precision = {training.compute, master, training.gradient};
  Engine engine(
      build->parameters(),
      [&](const data::Batch& batch, const nn::StepContext& step) {
        return LossSum{model->loss_sum(batch.inputs, batch.labels, step), batch.labels.numel()};
      },
      context, config);
  const int64_t share = training.global_batch / context.strategy().dp;
  const int64_t begin = context.coordinate(Axis::dp) * share;
  for (int64_t step = 0; step < training.steps; ++step) {
    engine.step({tiny_batch(training, step, begin, share)});
  }
  engine.chunks().synchronize();
  Traffic traffic;
  for (const auto& [key, entry] : world->ledger().entries()) traffic[key] = entry.law_bytes;
  return traffic;
}

void expect_equal_traffic(const TinyTraining& training, int ranks) {
  const TinyResult real = train_tiny(training, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    Traffic expected;
    for (const auto& [key, entry] : real.traffic[rank]) expected[key] = entry.law_bytes;
    EXPECT_EQ(dry_traffic(training, rank, ranks), expected)
        << "rank " << rank << " of " << ranks << ", stage " << training.zero << ", sp "
        << training.sp << ", tp " << training.tp;
  }
}

TinyTraining two_steps(double dropout, int zero) {
  TinyTraining training;
  training.model = tiny_config(dropout);
  training.zero = zero;
  training.steps = 2;
  return training;
}

TEST(DryRun, BooksTheBytesOfTheRealRun) {
  for (int ranks : {1, 2, 3, 4}) {
    for (int zero : {0, 1}) {
      for (double dropout : {0.0, 0.1}) expect_equal_traffic(two_steps(dropout, zero), ranks);
    }
  }
}

TEST(DryRun, BooksTheBytesOfSharedTensorsAndSequences) {
  for (int zero : {0, 1}) {
    for (double dropout : {0.0, 0.1}) {
      for (const bool tp_sequence : {false, true}) {
        TinyTraining training = two_steps(dropout, zero);
        training.tp_sequence = tp_sequence;
        training.tp = 2;
        expect_equal_traffic(training, 2);
        training.tp = 3;
        expect_equal_traffic(training, 6);
        for (const SequenceMode mode : {SequenceMode::ring, SequenceMode::ulysses}) {
          training.sequence_mode = mode;
          training.model.n_head = 3;
          training.tp = 1;
          training.sp = 3;
          expect_equal_traffic(training, 3);
          training.model.n_head = 4;
          training.tp = training.sp = 2;
          expect_equal_traffic(training, 8);
        }
      }
    }
  }
}

TEST(DryRun, BooksTheBytesOfALlama) {
  TinyTraining training = two_steps(0.1, 1);
  training.llama = {.vocab_size = 101,
                    .hidden_size = 36,
                    .intermediate_size = 50,
                    .num_hidden_layers = 2,
                    .num_attention_heads = 8,
                    .num_key_value_heads = 2,
                    .head_dim = 6,
                    .max_position_embeddings = 16,
                    .attention_dropout = 0.1};
  for (const bool tp_sequence : {false, true}) {
    training.tp_sequence = tp_sequence;
    training.tp = 3;
    training.sp = 1;
    expect_equal_traffic(training, 6);
    training.tp = training.sp = 2;
    for (const SequenceMode mode : {SequenceMode::ring, SequenceMode::ulysses}) {
      training.sequence_mode = mode;
      expect_equal_traffic(training, 4);
    }
  }
}

TEST(DryRun, BooksTheBytesOfSquaresAndCubes) {
  for (const auto& [mode, tp, depth] : {std::tuple{TensorMode::two_d, 4, 1},
                                        {TensorMode::two_and_half_d, 8, 2},
                                        {TensorMode::three_d, 8, 1}}) {
    TinyTraining training = two_steps(0.1, 1);
    training.model.n_head = 4;
    training.tensor_mode = mode;
    training.tp = tp;
    training.tp_depth = depth;
    expect_equal_traffic(training, tp);
    training.llama = {.vocab_size = 101,
                      .hidden_size = 36,
                      .intermediate_size = 50,
                      .num_hidden_layers = 2,
                      .num_attention_heads = 6,
                      .num_key_value_heads = 1,
                      .head_dim = 6,
                      .max_position_embeddings = 16};
    expect_equal_traffic(training, tp);
    if (tp > 4) continue;
    expect_equal_traffic(training, 2 * tp);
    training.sp = 2;
    expect_equal_traffic(training, 2 * tp);
  }
}

// 124 million parameters at 1,024 ranks, in the memory of a few tensors.
TEST(DryRun, AnyRankOfAThousand) {
  TinyTraining training;
  training.model = models::gpt2::Config{};
  training.zero = 1;
  training.steps = 1;
  training.global_batch = 1024;
  training.compute = training.gradient = at::kBFloat16;
  int64_t gradients = 0;
  for (const auto& [key, bytes] : dry_traffic(training, 1023, 1024)) {
    if (key.reason == comm::Reason::gradient) gradients += bytes;
  }
  const int64_t model = 2 * models::gpt2::facts(training.model).parameters;
  EXPECT_NEAR(static_cast<double>(gradients), static_cast<double>(model) * 1023 / 1024,
              0.001 * model);
}

TEST(DryRun, AnyRankOfAThousandThatShareTensorsAndSequences) {
  TinyTraining training;
  training.model = models::gpt2::Config{};
  training.zero = training.steps = 1;
  training.global_batch = 128;
  training.sequence = 512;
  training.sp = 2;
  training.sequence_mode = SequenceMode::ulysses;
  training.tp = 4;
  training.compute = training.gradient = at::kBFloat16;
  std::map<comm::Reason, int64_t> sent;
  for (const auto& [key, bytes] : dry_traffic(training, 777, 1024)) sent[key.reason] += bytes;
  // One sequence of 512 in each replica, half of it on each rank of sp.
  const int64_t share = 256 * training.model.n_embd * 2;
  const int64_t statistics = 3 * 2 * 256 * 4 * 3 / 4;
  EXPECT_EQ(sent[comm::Reason::tensor],
            (10 * training.model.n_layer + 4) * share * 3 / 4 + statistics);
  // Of the three heads of its rank of tp, rank 777 computes two. Forward it sends the third's
  // query, key and value for its tokens, and the results of its two for the tokens of the other;
  // backward their gradients.
  const int64_t one_head = 256 * 64 * 2;
  EXPECT_EQ(sent[comm::Reason::sequence],
            training.model.n_layer * ((3 * 1 + 2) + (3 * 2 + 1)) * one_head);
  // As a ring: keys and values of its three heads for its tokens one hop forward and one backward,
  // in bf16; gradients of those of all tokens, in fp32.
  training.sequence_mode = SequenceMode::ring;
  sent.clear();
  for (const auto& [key, bytes] : dry_traffic(training, 777, 1024)) sent[key.reason] += bytes;
  EXPECT_EQ(sent[comm::Reason::sequence],
            training.model.n_layer * (2 * 2 * 3 * one_head + 2 * 2 * 3 * 2 * one_head));
}

}  // namespace
}  // namespace colossal::test
