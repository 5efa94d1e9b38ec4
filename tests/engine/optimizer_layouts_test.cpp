// Every optimizer gives the same numbers at every layout.
#include <gtest/gtest.h>

#include "tests/support/layout_cases.h"
#include "tests/support/pairwise.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

struct NamedLayout {
  std::string name;
  int ranks;
  Strategy strategy;
};

std::vector<NamedLayout> named_layouts() {
  return {
      {"dp2", 2, {.zero = 0}},
      {"dp3_zero1", 3, {.zero = 1}},
      {"dp3_zero2", 3, {.zero = 2}},
      {"dp4_zero3_groups2", 4, {.zero = 3, .zero_group = 2}},
      {"tp3", 3, {.tp = 3}},
      {"dp2_tp2_zero1", 4, {.tp = 2, .zero = 1}},
      {"2d4", 4, {.tp = 4, .tensor_mode = TensorMode::two_d}},
      {"2halfd8", 8, {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2}},
      {"3d8", 8, {.tp = 8, .tensor_mode = TensorMode::three_d}},
      {"sp2_zero3", 2, {.sp = 2, .zero = 3}},
      {"pp2", 2, {.pp = 2, .stage_blocks = {1, 1}}},
      {"pp2_dp2_zero2", 4, {.pp = 2, .stage_blocks = {1, 1}, .zero = 2}},
  };
}

struct OptimizerCase {
  size_t optimizer, layout;
  bool offloaded;  // optimizer state and gradients
};

std::vector<OptimizerCase> all_optimizer_cases() {
  std::vector<OptimizerCase> cases;
  for (size_t optimizer = 0; optimizer < optim::optimizer_names().size(); ++optimizer) {
    for (size_t layout = 0; layout < named_layouts().size(); ++layout) {
      for (const bool offloaded : {false, true}) cases.push_back({optimizer, layout, offloaded});
    }
  }
  return cases;
}

std::string optimizer_case_name(const testing::TestParamInfo<OptimizerCase>& info) {
  return fmt::format("{}_{}{}", optim::optimizer_names()[info.param.optimizer],
                     named_layouts()[info.param.layout].name, info.param.offloaded ? "_host" : "");
}

TinyTraining training_with(const std::string& optimizer) {
  TinyTraining training;
  training.model = tiny_llama();
  training.optimizer.name = optimizer;
  training.optimizer.weight_decay = 0.05;
  if (optimizer == "galore") {
    training.optimizer.rank = 7;
    training.optimizer.projection_interval = 3;
  }
  if (optimizer == "adafactor") training.optimizer.betas = {{0.8}};
  if (optimizer == "sgd") {
    training.optimizer.momentum = 0.9;
    training.optimizer.nesterov = true;
  }
  // Where squares of gradients are not far from epsilon, rounding does not show.
  if (optimizer == "adafactor" || optimizer == "came") training.optimizer.eps = 1e-10;
  training.eps = 1e-6;
  training.micro_batch = 2;
  training.learning_rate = 1e-3;
  training.steps = 4;
  training.chunk_bytes = 1 << 14;  // several chunks
  return training;
}

// On one rank.
const TinyResult& serial_run(const std::string& optimizer) {
  static std::map<std::string, TinyResult> results;
  if (!results.contains(optimizer)) {
    results[optimizer] = train_tiny(training_with(optimizer), 1);
  }
  return results[optimizer];
}

class OptimizerLayouts : public testing::TestWithParam<OptimizerCase> {};

TEST_P(OptimizerLayouts, EqualSerial) {
  const std::string optimizer = optim::optimizer_names()[GetParam().optimizer];
  const NamedLayout layout = named_layouts()[GetParam().layout];
  TinyTraining training = training_with(optimizer);
  training.layout = layout.strategy;
  if (GetParam().offloaded) {
    training.tiers.optimizer = training.tiers.gradients = {.host = 1};
  }
  TinyResult result = train_tiny(training, layout.ranks);
  result.gradients = serial_run(optimizer).gradients;  // a MatrixOptimizer overwrites them
  expect_same(result, serial_run(optimizer), 1e-9, training);
}

std::vector<double> settings_of_case(const OptimizerCase& c) {
  return {static_cast<double>(c.optimizer), static_cast<double>(c.layout),
          static_cast<double>(c.offloaded)};
}

INSTANTIATE_TEST_SUITE_P(Pairs, OptimizerLayouts,
                         testing::ValuesIn(pairwise(all_optimizer_cases(), settings_of_case)),
                         optimizer_case_name);

// Stacks of experts: a matrix for each expert, on the ranks of ep and expert_tp.
TEST(OptimizersOfExperts, EqualSerial) {
  for (const std::string optimizer : {"lamb", "adafactor", "came", "muon", "galore"}) {
    SCOPED_TRACE(optimizer);
    TinyTraining training = training_with(optimizer);
    training.model = tiny_gpt_oss(2);
    const TinyResult reference = train_tiny(training, 1);
    for (const Strategy& layout :
         {Strategy{.ep = 2, .zero = 1}, Strategy{.tp = 2, .ep = 2, .expert_tp = 2},
          Strategy{.sp = 2, .ep = 3, .zero = 3}}) {
      const int ranks = layout.ep == 3 ? 6 : 4;
      SCOPED_TRACE(layout_name(layout));
      training.layout = layout;
      TinyResult result = train_tiny(training, ranks);
      result.gradients = reference.gradients;  // a MatrixOptimizer overwrites them
      expect_same(result, reference, 1e-9, training);
    }
  }
}

// The bytes that each rank sends for the optimizer, in all steps.
std::vector<int64_t> bytes_of_optimizer(const TinyResult& result) {
  std::vector<int64_t> bytes;
  for (const auto& of_rank : result.traffic) {
    bytes.push_back(0);
    for (const auto& [key, traffic] : of_rank) {
      if (key.reason == comm::Reason::optimizer) bytes.back() += traffic.law_bytes;
    }
  }
  return bytes;
}

TEST(OptimizerLaws, ASumIsAnAllReduceOfAllTensors) {
  TinyTraining training = training_with("lamb");
  training.layout.zero = 2;
  // Of 2 blocks with 7 products, the embedding and the head: two norms each.
  const int64_t tensors = 2 * 7 + 2;
  const int64_t bytes = training.steps * 8 * 2 * tensors;  // sent by each of two ranks
  EXPECT_EQ(bytes_of_optimizer(train_tiny(training, 2)), (std::vector<int64_t>{bytes, bytes}));
}

TEST(OptimizerLaws, AReplicaSendsTheDirectionsOfItsMatrices) {
  TinyTraining training = training_with("muon");
  const TinyResult result = train_tiny(training, 2);
  int64_t elements = 0;  // of matrices: each is sent once, by its owner
  for (const auto& [name, weight] : result.weights) {
    const bool is_table =
        name.find("embedding") != std::string::npos || name.find("head") != std::string::npos;
    if (weight.dim() == 2 && !is_table) elements += weight.numel();
  }
  const std::vector<int64_t> sent = bytes_of_optimizer(result);
  EXPECT_EQ(sent[0] + sent[1], training.steps * 8 * elements);
  EXPECT_NEAR(static_cast<double>(sent[0]) / static_cast<double>(sent[1]), 1, 0.2);
}

}  // namespace
}  // namespace colossal::test
