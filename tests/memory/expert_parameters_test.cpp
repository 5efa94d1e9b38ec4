// Parameters of experts are stacked on dim 0 and divided unevenly among ranks; other parameters are
// on all ranks. Each is updated, counted and written once, in any layout.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <mutex>

#include "colossal/layout/partition.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/nn/layer_scope.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal::memory {
namespace {

constexpr int64_t kExperts = 6, kInner = 5, kHidden = 4;

// Returns a rank's parameters of a layer: a norm, the router, and the experts' first projections.
nn::ParameterList layer_of_experts(const ParallelContext& context) {
  const auto make = [](const std::string& name, std::vector<int64_t> shape,
                       nn::Placement placement) {
    return nn::ParameterHandle(
        std::make_shared<nn::Parameter>(nn::Parameter{.name = name,
                                                      .shape = std::move(shape),
                                                      .initializer = nn::Initializer::normal(0.5),
                                                      .placement = std::move(placement)}));
  };
  const auto part = [](int64_t total, const comm::Group& group) {
    return std::vector{Partition(total, group.size()).range(group.rank())};
  };
  const nn::Placement everywhere{.reduction = &context.stage_group()};
  const nn::Placement experts{.held = {part(kExperts, context.expert_group()),
                                       part(kInner, context.expert_parts_group()),
                                       {{0, kHidden}}},
                              .reduction = &context.same_experts_group()};
  return {make("norm.weight", {kHidden}, everywhere),
          make("router.weight", {kExperts, kHidden}, everywhere),
          make("experts.up.weight", {kExperts, kInner, kHidden}, experts)};
}

// Returns this rank's elements of a tensor with the elements of all experts.
at::Tensor here_of(const at::Tensor& whole, const nn::Parameter& parameter) {
  at::Tensor here = at::empty({parameter.local_numel()}, whole.options());
  parameter.for_each_run({0, parameter.local_numel()}, [&](const nn::Parameter::Run& run) {
    here.narrow(0, run.local_begin, run.count).copy_(whole.narrow(0, run.begin, run.count));
  });
  return here.view(parameter.local_shape());
}

// The sum over the ranks that hold the same parameter is equal in every layout.
void backward_of(const nn::ParameterHandle& parameter) {
  const comm::Group& same = *parameter->placement.reduction;
  const double ranks = same.size(), share = 2 * (same.rank() + 1) / (ranks * (ranks + 1));
  const at::Tensor factors =
      here_of(at::linspace(-1, 2, parameter->numel(), at::kDouble), *parameter);
  nn::LayerScope scope("layer");
  const at::Tensor weight = parameter.use(scope);
  torch::autograd::backward({(weight * weight * factors).sum() * share}, {});
}

// The shards of all ranks, collected by name.
struct Collected {
  std::mutex mutex;
  std::map<std::string, at::Tensor> weights, gradients, times_written;
  std::map<std::string, double> squared_norms;  // by step

  void add(const ChunkEngine& engine) {
    const std::lock_guard lock(mutex);
    engine.for_each_checkpoint_shard([&](const OwnedShard& piece) {
      const auto part_of = [&](std::map<std::string, at::Tensor>& tensors) {
        at::Tensor& whole = tensors[piece.parameter->name];
        if (!whole.defined()) whole = at::zeros({piece.parameter->numel()}, at::kDouble);
        return whole.narrow(0, piece.elements.begin, piece.elements.size());
      };
      part_of(weights).copy_(piece.master());
      part_of(gradients).copy_(piece.gradient());
      part_of(times_written).add_(1);
    });
  }
};

struct Case {
  Strategy strategy;
  bool on_host = false;
  int micro_batches = 2;
};

constexpr int kSteps = 3;

ChunkOptions options_of(const Case& c) {
  ChunkOptions options{.working = at::kDouble, .master = at::kDouble, .gradient = at::kDouble};
  options.chunk_bytes = 256;
  options.window_bytes = 0;
  if (c.on_host) {
    options.tiers.parameters = options.tiers.gradients = options.tiers.optimizer = {.host = 1};
  }
  return options;
}

// So large an eps that updates depend on the size of gradients.
const auto kOptimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig{.eps = 1});

void train(const Case& c, Collected& collected) {
  test::run_ranks(c.strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, c.strategy);
    const nn::ParameterList parameters = layer_of_experts(context);
    ChunkEngine engine(parameters, context, kOptimizer, options_of(c));
    engine.initialise(7);
    for (int step = 0; step < kSteps; ++step) {
      engine.begin_step();
      for (int i = 0; i < c.micro_batches; ++i) {
        engine.begin_micro_batch();
        engine.begin_backward(/*last=*/i + 1 == c.micro_batches);
        for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
          backward_of(*parameter);
        }
        engine.end_backward();
      }
      engine.finish_reduction();
      // The control all-reduce also sums over all ranks.
      const at::Tensor norm = at::full({1}, engine.squared_gradient_norm().value(), at::kDouble);
      comm::all_reduce(norm, context.world_group(), comm::Reason::control);
      const double squared = norm.item<double>();
      if (world.rank() == 0) collected.squared_norms[fmt::format("step {}", step)] = squared;
      if (step + 1 == kSteps) collected.add(engine);
      engine.update({.learning_rate = 0.1, .gradient_scale = 1 / (1 + std::sqrt(squared))},
                    {true, true, true});
    }
    engine.synchronize();
    // The layer reads its tensor in this rank's shape.
    const std::lock_guard lock(collected.mutex);
    for (const nn::ParameterHandle& parameter : parameters) {
      EXPECT_EQ(parameter->tensor.sizes(), parameter->local_shape());
    }
  });
}

void expect_same(const std::map<std::string, at::Tensor>& a,
                 const std::map<std::string, at::Tensor>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, expected] : b) {
    const double difference = (a.at(name) - expected).norm().item<double>();
    EXPECT_LE(difference, 1e-12 * expected.norm().item<double>()) << what << " of " << name;
  }
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (int zero : {0, 1, 2, 3}) {
    for (bool on_host : {false, true}) {
      const auto add = [&](int dp, int tp, int ep, int expert_tp, int zero_group = 0) {
        if (zero == 0 && zero_group > 0) return;
        cases.push_back({{.dp = dp,
                          .tp = tp,
                          .ep = ep,
                          .expert_tp = expert_tp,
                          .zero = zero,
                          .zero_group = zero_group},
                         on_host});
      };
      add(4, 1, 1, 1);
      add(4, 1, 2, 1);
      add(4, 1, 4, 1);  // 2, 2, 1 and 1 experts
      add(2, 2, 4, 1);
      add(4, 1, 2, 2);  // 3 and 2 of 5 features
      add(6, 1, 3, 2);
      add(8, 1, 2, 1, 4);
      add(8, 1, 4, 1, 2);  // experts are divided over two groups
      add(4, 2, 2, 2, 2);
      add(8, 1, 8, 1);  // two ranks have no experts
    }
  }
  return cases;
}

TEST(ExpertParameters, AreUpdatedCountedAndWrittenOnceAtEveryLayout) {
  Collected serial;
  train({.strategy = {}}, serial);
  for (const Case& c : cases()) {
    const Strategy& s = c.strategy;
    TRACED_CASE(fmt::format("dp {} tp {} ep {} expert_tp {} zero {} group {} on host {}", s.dp,
                            s.tp, s.ep, s.expert_tp, s.zero, s.zero_group, c.on_host));
    Collected parallel;
    train(c, parallel);
    expect_same(parallel.weights, serial.weights, "weights");
    expect_same(parallel.gradients, serial.gradients, "gradients");
    for (const auto& [name, times] : parallel.times_written) {
      EXPECT_TRUE(at::equal(times, at::ones_like(times))) << name;
    }
    for (const auto& [step, norm] : serial.squared_norms) {
      EXPECT_NEAR(parallel.squared_norms.at(step), norm, 1e-12 * norm) << step;
    }
  }
}

// Elements are loaded by their places in the whole tensor, so another layout can read what one
// wrote.
TEST(ExpertParameters, LoadAtAnotherLayout) {
  Collected written;
  train({.strategy = {.dp = 4, .ep = 4, .zero = 1}}, written);
  for (const Strategy& strategy :
       {Strategy{.dp = 3, .ep = 3}, Strategy{.dp = 4, .ep = 2, .expert_tp = 2, .zero = 1},
        Strategy{.dp = 2, .tp = 2, .zero = 1}, Strategy{}}) {
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      const ParallelContext context(world, strategy);
      const nn::ParameterList parameters = layer_of_experts(context);
      ChunkEngine engine(parameters, context, kOptimizer, options_of({strategy}));
      engine.initialise(1);
      for (const nn::ParameterHandle& parameter : parameters) {
        engine.load(*parameter, 0, written.weights.at(parameter->name));
        EXPECT_TRUE(at::equal(parameter->tensor.detach(),
                              here_of(written.weights.at(parameter->name), *parameter)))
            << parameter->name;
      }
    });
  }
}

// An evaluation reads only the experts that have rows, once each.
TEST(ExpertParameters, OnlyExpertsWithRowsLeaveTheirTier) {
  constexpr int64_t kExpertBytes = 8 * kInner * kHidden;
  constexpr int64_t kSpanBytes = kExperts * kExpertBytes;  // all experts, in one read from NVMe
  const test::TemporaryDirectory folder;
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    SCOPED_TRACE(tier_name(tier));
    test::run_ranks(1, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{});
      nn::ParameterHandle stack = layer_of_experts(context).back();
      stack->of_experts = true;
      ChunkOptions options = options_of({});
      options.tiers.parameters = {.host = tier == Tier::host ? 1.0 : 0,
                                  .nvme = tier == Tier::nvme ? 1.0 : 0};
      options.tiers.nvme_path = folder.path();
      ChunkEngine engine({stack}, context, options);
      engine.initialise(7);
      const auto brought = [&] {
        const auto found = engine.tier_traffic().find({tier, MemoryKind::parameters});
        return found == engine.tier_traffic().end() ? 0 : found->second.from;
      };
      engine.begin_evaluation();
      const at::Tensor expected = [&] {
        nn::LayerScope scope("layer");
        return stack.use(scope).clone();
      }();
      engine.end_evaluation();
      const int64_t before = brought();

      engine.begin_evaluation();
      const auto use = [&](const std::vector<int64_t>& counts) {
        nn::LayerScope scope("layer");
        const at::Tensor weight = stack.use_of(scope, counts);
        for (int64_t expert = 0; expert < kExperts; ++expert) {
          if (counts[expert] == 0) continue;
          EXPECT_TRUE(weight[expert].equal(expected[expert])) << expert;
        }
      };
      use({0, 3, 0, 0, 1, 0});
      const int64_t of_expert = tier == Tier::host ? kExpertBytes : kSpanBytes;
      EXPECT_EQ(brought() - before, 2 * of_expert);
      const int64_t after_two = brought();
      use({0, 2, 0, 0, 0, 0});
      EXPECT_EQ(brought(), after_two);
      use({1, 1, 0, 0, 0, 0});
      EXPECT_EQ(brought() - before, 3 * of_expert);
      engine.end_evaluation();
    });
  }
}

}  // namespace
}  // namespace colossal::memory
