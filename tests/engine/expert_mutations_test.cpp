// Errors of other systems with experts, put in on purpose: the comparison with one rank sees each.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "colossal/models/transformer_sharding.h"
#include "colossal/parallel/tensor/tensor_1d.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::expert_mutations {
namespace {

constexpr int64_t kExperts = 6;

TinyTraining training_at(const Strategy& layout) {
  TinyTraining training;
  training.model = tiny_gpt_oss(2);
  training.layout = layout;
  training.global_batch = 8;
  training.sequence = 7;
  training.eps = 1;  // or the size of gradients would not be seen
  return training;
}

// The largest distance of a weight from one rank's, relative to how far the weight has moved.
double distance(const TinyResult& result, const TinyResult& reference, const TinyResult& start) {
  double largest = 0;
  for (const auto& [name, weight] : reference.weights) {
    const double moved = (weight - start.weights.at(name)).norm().item<double>();
    if (moved == 0) continue;
    largest = std::max(largest, (result.weights.at(name) - weight).norm().item<double>() / moved);
  }
  return largest;
}

class ExpertMutations : public testing::Test {
 protected:
  void expect_seen(const TinyTraining& mutated, int ranks) const {
    const TinyResult sound = train_tiny(training_at(mutated.layout), ranks);
    EXPECT_LE(distance(sound, serial_, start_), 1e-9);
    EXPECT_GE(distance(train_tiny(mutated, ranks), serial_, start_), 1e-3);
  }
  // Of parameters whose name contains `part`.
  static auto misplaced(const std::string& part,
                        const std::function<void(nn::Placement&, const ParallelContext&)>& how) {
    return [=](const nn::ParameterList& parameters, const ParallelContext& context) {
      for (const nn::ParameterHandle& parameter : parameters) {
        if (parameter->name.find(part) != std::string::npos) how(parameter->placement, context);
      }
    };
  }

 private:
  static TinyTraining untrained() {
    TinyTraining training = training_at({});
    training.steps = 0;
    return training;
  }
  const TinyResult start_ = train_tiny(untrained(), 1);
  const TinyResult serial_ = train_tiny(training_at({}), 1);
};

TEST_F(ExpertMutations, GradientsOfExpertsThatAreNotSummed) {
  for (const char* part : {"experts.gate_up.weight", "experts.down.weight", "experts.down.bias"}) {
    SCOPED_TRACE(part);
    TinyTraining mutated = training_at({.ep = 2});
    mutated.misplace = misplaced(part, [](nn::Placement& placement, const ParallelContext&) {
      static const comm::Group alone;
      placement.reduction = &alone;
    });
    expect_seen(mutated, 4);
  }
}

// What data parallelism alone would do: sums over ranks with other experts.
TEST_F(ExpertMutations, GradientsOfExpertsThatAreSummedOverAllRanks) {
  TinyTraining mutated = training_at({.ep = 2});
  mutated.misplace =
      misplaced("experts.", [](nn::Placement& placement, const ParallelContext& context) {
        placement.reduction = &context.stage_group();
      });
  expect_seen(mutated, 4);
}

// A missing or a second division by ep, and gradients that are doubled where a group has one rank.
TEST_F(ExpertMutations, GradientsOfExpertsTimesOrDividedByTheirRanks) {
  for (const double factor : {0.5, 2.0}) {
    TinyTraining mutated = training_at({.ep = 2});
    mutated.gradient_factors = {{"experts.", factor}};
    expect_seen(mutated, 2);
  }
}

// With experts on all ranks of tp, each of which routes its share of the tokens.
TEST_F(ExpertMutations, GradientsUnderTensorParallelismThatAreLost) {
  for (const char* part : {"router.weight", "router.bias", "experts."}) {
    SCOPED_TRACE(part);
    TinyTraining mutated = training_at({.tp = 2});
    mutated.misplace = misplaced(part, [](nn::Placement& placement, const ParallelContext&) {
      placement.reduction = nullptr;  // the data group, of one rank
    });
    expect_seen(mutated, 2);
  }
}

// Each part of an expert adds all of the bias.
TEST_F(ExpertMutations, BiasesThatAreAddedOnceForEachPart) {
  class Builder : public parallel::Tensor1dBuilder {
   public:
    using Tensor1dBuilder::Tensor1dBuilder;

   protected:
    int ranks_per_expert() const override { return 1; }
  };
  TinyTraining mutated = training_at({.tp = 2, .expert_tp = 2});
  for (const char* bias : {"blocks.0.experts.down.bias", "blocks.1.experts.down.bias"}) {
    mutated.initial[bias] = at::ones({kExperts, 28}, at::kDouble);
  }
  const auto with_initial = [&](const Strategy& layout, int64_t steps) {
    TinyTraining training = training_at(layout);
    training.initial = mutated.initial;
    training.steps = steps;
    return training;
  };
  const TinyResult start = train_tiny(with_initial({}, 0), 1);
  const TinyResult serial = train_tiny(with_initial({}, 3), 1);
  EXPECT_LE(distance(train_tiny(with_initial(mutated.layout, 3), 2), serial, start), 1e-9);
  mutated.make_builder = [model = mutated.model](const ParallelContext& context) {
    auto build = std::make_unique<Builder>(context, parallel::Shardings{models::sharding(model)},
                                           nn::make_dense_attention, /*table_rows=*/0);
    build->set_stages([](const nn::ModelPart&) { return 0; });
    return build;
  };
  EXPECT_GE(distance(train_tiny(mutated, 2), serial, start), 1e-3);
}

// Each rank takes its experts for the first ones: in a checkpoint one rank's would stand for all.
TEST_F(ExpertMutations, ExpertsUnderTheirLocalNumbers) {
  TinyTraining mutated = training_at({.ep = 2});
  mutated.misplace = misplaced("experts.", [](nn::Placement& placement, const ParallelContext&) {
    const Range here = placement.held[0][0];
    placement.held[0] = {{0, here.size()}};
  });
  expect_seen(mutated, 2);
}

}  // namespace
}  // namespace colossal::test::expert_mutations
