// Attention that stays within documents: the same numbers as the serial run at every kind of
// layout.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "tests/parallel/uneven_training.h"

namespace colossal::test::documents_parity {
namespace {

struct Case {
  std::string name;
  int ranks = 1;
  std::function<void(TinyTraining&)> lay_out;
};

std::vector<Case> cases() {
  return {
      {"ring", 3, [](auto& t) { t.sp = 3; }},
      {"ulysses", 2, [](auto& t) { t.sp = 2, t.sequence_mode = SequenceMode::ulysses; }},
      {"1d", 2, [](auto& t) { t.tp = 2; }},
      {"1d and ring", 4, [](auto& t) { t.tp = 2, t.sp = 2; }},
      {"2d", 4, [](auto& t) { t.tp = 4, t.tensor_mode = TensorMode::two_d; }},
      {"3d", 8, [](auto& t) { t.tp = 8, t.tensor_mode = TensorMode::three_d; }},
      {"ZeRO 3, recomputed", 2,
       [](auto& t) {
         t.zero = 3, t.order_known = true, t.micro_batch = 4;
         t.recompute.full_blocks = 2;
       }},
  };
}

// Documents of some five tokens, borders anywhere.
TinyTraining with_documents(TinyTraining training) {
  training.model.n_positions = training.sequence = 31;
  if (training.llama) training.llama->max_position_embeddings = 31;
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
  for (const Case& layout : cases()) {
    SCOPED_TRACE(layout.name);
    TinyTraining parallel = training;
    layout.lay_out(parallel);
    expect_same(train_tiny(parallel, layout.ranks), reference, 1e-9, parallel);
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
