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
  training.optimizer.rank = 7;
  training.optimizer.projection_interval = 3;
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
  result.gradients = serial_run(optimizer).gradients;  // Muon overwrites them
  expect_same(result, serial_run(optimizer), 1e-9, training);
}

std::vector<double> settings_of_case(const OptimizerCase& c) {
  return {static_cast<double>(c.optimizer), static_cast<double>(c.layout),
          static_cast<double>(c.offloaded)};
}

INSTANTIATE_TEST_SUITE_P(Pairs, OptimizerLayouts,
                         testing::ValuesIn(pairwise(all_optimizer_cases(), settings_of_case)),
                         optimizer_case_name);

}  // namespace
}  // namespace colossal::test
