// Attention that stays within documents: the same numbers as the serial run at every kind of
// layout.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "tests/parallel/uneven_training.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::documents_parity {
namespace {

std::vector<Strategy> layouts() {
  return {
      {.sp = 3},
      {.sp = 2, .sequence_mode = SequenceMode::ulysses},
      {.tp = 2},
      {.sp = 2, .tp = 2},
      {.tp = 4, .tensor_mode = TensorMode::two_d},
      {.tp = 8, .tensor_mode = TensorMode::three_d},
      {.dp = 2, .zero = 3},
  };
}

// Documents of some five tokens, borders anywhere.
TinyTraining with_documents(TinyTraining training) {
  training.model.positions = training.sequence = 31;
  at::manual_seed(1);
  training.tokens = at::randint(5, {training.global_batch, training.sequence + 1}, at::kLong);
  training.end_of_document = 0;
  training.steps = 3;
  return training;
}

void expect_parity(const TinyTraining& training) {
  const TinyResult reference = train_tiny(training, 1);
  TinyTraining joined = training;
  joined.end_of_document.reset();
  EXPECT_NE(train_tiny(joined, 1).losses, reference.losses);
  for (const Strategy& layout : layouts()) {
    TRACED_CASE(layout_name(layout));
    TinyTraining parallel = training;
    parallel.layout = layout;
    if (layout.zero == 3) {
      parallel.order_known = true;
      parallel.micro_batch = 4;
      parallel.recompute.full_blocks = 2;
    }
    expect_same(train_tiny(parallel, layout.world_size()), reference, 1e-9, parallel);
  }
}

TEST(SeparateDocuments, EqualSerialGpt) {
  expect_parity(with_documents(uneven(0.2, at::kDouble)));
}

TEST(SeparateDocuments, EqualSerialLlama) {
  expect_parity(with_documents(uneven_llama(6, 0.1, at::kDouble)));
}

}  // namespace
}  // namespace colossal::test::documents_parity
