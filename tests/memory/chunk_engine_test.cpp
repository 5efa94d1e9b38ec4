#include "colossal/memory/chunk_engine.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/nn/layer_scope.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal::memory {
namespace {

nn::ParameterList make_parameters() {
  const auto make = [](std::string name, std::vector<int64_t> shape, bool trainable) {
    return nn::ParameterHandle(
        std::make_shared<nn::Parameter>(nn::Parameter{.name = std::move(name),
                                                      .shape = std::move(shape),
                                                      .initializer = nn::Initializer::normal(0.5),
                                                      .trainable = trainable}));
  };
  return {make("used", {5, 7}, true), make("frozen", {3, 3}, true),
          make("on_one_rank", {4, 6}, true), make("nowhere", {11}, true)};
}

constexpr ChunkOptions kFp64{
    .working = at::kDouble, .master = at::kDouble, .gradient = at::kDouble};

void backward_of_sum(const nn::ParameterHandle& parameter, double factor) {
  nn::LayerScope scope("layer");
  torch::autograd::backward({(parameter.use(scope) * factor).sum()}, {});
}

// Collects whole weights by name, from the shards of all ranks.
class Weights {
 public:
  void collect(const ChunkEngine& engine) {
    const std::lock_guard lock(mutex_);
    engine.for_each_checkpoint_shard([&](const OwnedShard& piece) {
      at::Tensor& whole = weights_[piece.parameter->name];
      if (!whole.defined()) whole = at::zeros(piece.parameter->shape, at::kDouble);
      whole.view(-1).narrow(0, piece.elements.begin, piece.elements.size()).copy_(piece.working());
    });
  }
  const at::Tensor& operator[](const std::string& name) const { return weights_.at(name); }

 private:
  std::mutex mutex_;
  std::map<std::string, at::Tensor> weights_;
};

// A tensor has one hook for its accumulated gradient: it stays the user's.
TEST(ChunkEngine, LeavesTheUsersHooksAlone) {
  struct Count final : torch::autograd::PostAccumulateGradHook {
    explicit Count(int& calls) : calls(calls) {}
    void operator()(const at::Tensor& leaf) override { calls += leaf.grad().defined() ? 1 : 100; }
    int& calls;
  };
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  test::run_ranks(1, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{});
    const nn::ParameterList parameters = make_parameters();
    ChunkEngine engine(parameters, context, optimizer, kFp64);
    engine.initialise(1);
    int calls = 0;
    torch::autograd::impl::set_post_acc_grad_hooks(parameters[0]->tensor,
                                                   std::make_unique<Count>(calls));
    for (int step = 1; step <= 2; ++step) {
      engine.begin_step();
      engine.begin_micro_batch();
      engine.begin_backward(true);
      backward_of_sum(parameters[0], 2);
      engine.end_backward();
      engine.finish_reduction();
      EXPECT_EQ(calls, step);
      EXPECT_EQ(engine.squared_gradient_norm().value(), 4. * 5 * 7);
      EXPECT_FALSE(parameters[0]->tensor.grad().defined()) << "the engine has it";
    }
  });
}

// A user's program may go on with the weights when the engine is gone.
TEST(ChunkEngine, LeavesGradientsToAutogradAfterwards) {
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  test::run_ranks(1, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{});
    const nn::ParameterList parameters = make_parameters();
    std::optional<ChunkEngine> engine(std::in_place, parameters, context, optimizer, kFp64);
    engine->initialise(1);
    const at::Tensor weight = parameters[0]->tensor;
    const at::Tensor loss = (weight * 3).sum();  // its graph outlives the engine
    engine.reset();
    loss.backward();
    EXPECT_TRUE(weight.grad().eq(3).all().item<bool>());
  });
}

// As in torch.optim, a parameter that no rank uses keeps its value and its moments. If one rank
// uses it, the others contribute zeros. All ranks take part in the communication of parameters that
// they do not use.
TEST(ChunkEngine, UnusedParametersStayUntouched) {
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  ChunkOptions options = kFp64;
  options.chunk_bytes = 256;  // each parameter has a chunk
  options.window_bytes = 0;
  for (int zero : {0, 1, 2, 3}) {
    TRACED_CASE(zero);
    Weights before, after;
    test::run_ranks(3, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = 3, .zero = zero});
      nn::ParameterList parameters = make_parameters();
      parameters[1]->trainable = false;
      ChunkEngine engine(parameters, context, optimizer, options);
      engine.initialise(1);
      before.collect(engine);
      for (int step = 0; step < 3; ++step) {
        engine.begin_step();
        engine.begin_micro_batch();
        engine.begin_backward(true);
        backward_of_sum(parameters[0], 1.0);
        if (world.rank() == 1) backward_of_sum(parameters[2], 2.0);
        engine.end_backward();
        engine.finish_reduction();
        const std::vector<double> used = engine.used();
        EXPECT_EQ(used, (std::vector<double>{1, 0, world.rank() == 1 ? 1.0 : 0.0, 0}));
        engine.update({.learning_rate = 0.1}, {true, false, true, false});
      }
      engine.synchronize();
      after.collect(engine);
      EXPECT_EQ(engine.update_counts(), (std::vector<int64_t>{3, 0, 3, 0}));
    });
    EXPECT_FALSE(at::equal(after["used"], before["used"]));
    EXPECT_TRUE(at::equal(after["frozen"], before["frozen"]));
    EXPECT_FALSE(at::equal(after["on_one_rank"], before["on_one_rank"]));
    EXPECT_TRUE(at::equal(after["nowhere"], before["nowhere"]));
  }
}

TEST(ChunkEngine, GradientsAreSummedOverRanksAndMicroBatches) {
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  test::run_ranks(2, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 2, .zero = 0});
    nn::ParameterList parameters = make_parameters();
    ChunkEngine engine(parameters, context, optimizer, kFp64);
    engine.initialise(1);
    engine.begin_step();
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      engine.begin_micro_batch();
      engine.begin_backward(micro_batch == 2);
      // Of two uses, autograd adds the gradients before the engine gets them.
      nn::LayerScope scope("layer");
      const at::Tensor weight = parameters[0].use(scope), again = parameters[0].use(scope);
      torch::autograd::backward({weight.sum() + (again * (10.0 * world.rank())).sum()}, {});
      engine.end_backward();
    }
    engine.finish_reduction();
    const at::Tensor checked = at::zeros({1}, at::kLong);
    engine.for_each_checkpoint_shard(*parameters[0], [&](const OwnedShard& piece) {
      EXPECT_TRUE(at::equal(piece.gradient(),
                            at::full({piece.elements.size()}, 3.0 * (1 + 11), at::kDouble)));
      checked.add_(piece.elements.size());
    });
    comm::all_reduce(checked, context.data_group(), comm::Reason::control);
    EXPECT_EQ(checked.item<int64_t>(), 35);
    // Each element is counted by one rank only.
    at::Tensor squares = at::full({1}, engine.squared_gradient_norm().value(), at::kDouble);
    comm::all_reduce(squares, context.data_group(), comm::Reason::control);
    EXPECT_DOUBLE_EQ(squares.item<double>(), 35 * 36.0 * 36.0);
  });
}

TEST(ChunkEngine, InitialWeightsAreTheSameAtEveryRankCount) {
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  const auto weights_at = [&](int ranks) {
    std::vector<at::Tensor> weights;
    test::run_ranks(ranks, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = ranks, .zero = 1});
      nn::ParameterList parameters = make_parameters();
      ChunkEngine engine(parameters, context, optimizer,
                         {.working = at::kBFloat16, .master = at::kFloat, .gradient = at::kFloat});
      engine.initialise(9);
      if (world.rank() != ranks - 1) return;
      for (const auto& parameter : parameters)
        weights.push_back(parameter->tensor.detach().clone());
    });
    return weights;
  };
  const std::vector<at::Tensor> serial = weights_at(1);
  for (int ranks : {2, 3, 5}) {
    const std::vector<at::Tensor> parallel = weights_at(ranks);
    for (size_t i = 0; i < serial.size(); ++i) EXPECT_TRUE(at::equal(parallel[i], serial[i]));
  }
}

// A chunk with fewer units of 64 bytes than ranks: the last ranks have no part to update, and
// gather what the others have updated.
TEST(ChunkEngine, RanksWithoutAPartOfAChunkGatherItsUpdates) {
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  const test::TemporaryDirectory folder;
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
    for (int zero : {0, 1, 2, 3}) {
      TRACED_CASE(fmt::format("{}, zero {}", tier_name(tier), zero));
      ChunkOptions options = kFp64;
      options.chunk_bytes = 1;
      options.window_bytes = 0;
      options.tiers.nvme_path = folder.path();
      const TierShares shares{.host = tier == Tier::host ? 1.0 : 0,
                              .nvme = tier == Tier::nvme ? 1.0 : 0};
      options.tiers.parameters = options.tiers.gradients = options.tiers.optimizer = shares;
      std::array<at::Tensor, 4> weights;
      test::run_ranks(4, [&](comm::World& world) {
        const ParallelContext context(world, Strategy{.dp = 4, .zero = zero});
        nn::ParameterList parameters{nn::ParameterHandle(std::make_shared<nn::Parameter>(
            nn::Parameter{.name = "small", .shape = {11}}))};  // two units of 64 bytes
        ChunkEngine engine(parameters, context, optimizer, options);
        engine.initialise(1);
        for (int step = 0; step < 2; ++step) {
          engine.begin_step();
          engine.begin_micro_batch();
          engine.begin_backward(/*last=*/true);
          backward_of_sum(parameters[0], 1.0);
          engine.end_backward();
          engine.finish_reduction();
          engine.update({.learning_rate = 0.1}, {true});
        }
        engine.synchronize();
        engine.begin_micro_batch();
        nn::LayerScope scope("layer");
        weights[world.rank()] = parameters[0].use(scope).detach().clone();
      });
      for (const at::Tensor& weight : weights) {
        EXPECT_TRUE(at::equal(weight, weights[0]));
        EXPECT_FALSE(at::equal(weight, at::zeros_like(weight)));
      }
    }
  }
}

TEST(ChunkEngine, NamesTheFirstNonFiniteGradient) {
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  const auto world = comm::single_world();
  const ParallelContext context(*world, Strategy{});
  nn::ParameterList parameters = make_parameters();
  ChunkEngine engine(parameters, context, optimizer, kFp64);
  engine.initialise(1);
  engine.begin_step();
  engine.begin_micro_batch();
  engine.begin_backward(true);
  backward_of_sum(parameters[0], 1.0);
  backward_of_sum(parameters[2], std::numeric_limits<double>::infinity());
  engine.end_backward();
  engine.finish_reduction();
  EXPECT_FALSE(std::isfinite(engine.squared_gradient_norm().value()));
  EXPECT_EQ(engine.first_non_finite_gradient(), "on_one_rank");
}

// Gradients take memory from the first one of a step until the next step begins. A gradient that
// fills its chunk is adopted without a copy.
TEST(ChunkEngine, GradientsTakeMemoryOnlyWhileThereAreAny) {
  constexpr int64_t kElements = 4096, kBytes = kElements * static_cast<int64_t>(sizeof(double));
  install_allocators();
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  test::run_ranks(2, [&](comm::World& world) {
    for (int zero : {0, 1, 2, 3}) {
      TRACED_CASE(zero);
      MemoryLedger ledger;
      const MemoryScope scope{ledger, at::kCPU};
      const ParallelContext context(world, Strategy{.dp = 2, .zero = zero});
      nn::ParameterList parameters{nn::ParameterHandle(
          std::make_shared<nn::Parameter>(nn::Parameter{.name = "table", .shape = {kElements}}))};
      ChunkOptions options = kFp64;
      options.window_bytes = 0;
      ChunkEngine engine(parameters, context, optimizer, options);
      engine.initialise(1);
      for (int step = 0; step < 2; ++step) {
        engine.begin_step();
        EXPECT_EQ(ledger.live()[MemoryKind::gradients], 0);
        engine.begin_micro_batch();
        engine.begin_backward(true);
        nn::LayerScope layer("layer");
        const at::Tensor product = (parameters[0].use(layer) * 2.0).sum();
        ledger.reset_peak();
        const int64_t before = ledger.live().total();
        torch::autograd::backward({product}, {});
        engine.end_backward();
        engine.finish_reduction();
        // The gradient and, if it is sharded, the part that is kept. Autograd's gradient is not
        // another copy.
        const int64_t expected = zero >= 2 ? kBytes + kBytes / 2 : kBytes;
        EXPECT_LT(ledger.at_peak().total() - before, expected + kBytes / 4);
        EXPECT_EQ(ledger.live()[MemoryKind::gradients], zero >= 2 ? kBytes / 2 : kBytes);
        engine.update({.learning_rate = 0.1}, {true});
      }
      engine.synchronize();
    }
  });
}

TEST(ChunkEngine, StateBytesAreThoseOfTheStage) {
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  test::run_ranks(4, [&](comm::World& world) {
    for (int zero : {0, 1}) {
      const ParallelContext context(world, Strategy{.dp = 4, .zero = zero});
      const auto parameter =
          std::make_shared<nn::Parameter>(nn::Parameter{.name = "weight", .shape = {64, 64}});
      ChunkEngine engine(
          {nn::ParameterHandle(parameter)}, context, optimizer,
          {.working = at::kBFloat16, .master = at::kFloat, .gradient = at::kBFloat16});
      const ChunkEngine::StateBytes bytes = engine.state_bytes(Tier::device);
      EXPECT_EQ(bytes.parameters, 2 * 4096);
      EXPECT_EQ(bytes.gradients, 2 * 4096);
      EXPECT_EQ(bytes.optimizer, 12 * 4096 / (zero == 1 ? 4 : 1));
    }
  });
}

class NvmeTier : public testing::Test {
 protected:
  NvmeTier() : context_(*world_, Strategy{}) {
    options_.tiers.parameters = options_.tiers.gradients = options_.tiers.optimizer = {.nvme = 1};
    options_.tiers.nvme_path = folder_.path();
  }

  void step(ChunkEngine& engine) {
    engine.begin_step();
    engine.begin_micro_batch();
    engine.begin_backward(true);
    for (const nn::ParameterHandle& parameter : engine.parameters()) {
      backward_of_sum(parameter, 1.0);
    }
    engine.end_backward();
    engine.finish_reduction();
    engine.update({.learning_rate = 0.1}, std::vector<bool>(engine.parameters().size(), true));
  }

  const test::TemporaryDirectory folder_;
  const std::unique_ptr<comm::World> world_ = comm::single_world();
  const ParallelContext context_;
  const std::shared_ptr<optim::ParameterGroups> optimizer_ =
      std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  ChunkOptions options_ = kFp64;
};

// If bytes differ from those that were written, that is an error.
TEST_F(NvmeTier, DamageIsNoticed) {
  ChunkEngine engine(make_parameters(), context_, optimizer_, options_);
  engine.initialise(1);
  step(engine);
  io::SwapFile& file = engine.tier_pools().swap();
  alignas(4096) static const std::array<char, 4096> other{};  // aligned for direct I/O
  ASSERT_EQ(::pwrite(file.descriptor(), other.data(), other.size(), 0), std::ssize(other));
  try {
    step(engine);
    ADD_FAILURE() << "nobody noticed";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("nvme tier, parameters"));
    EXPECT_THAT(error.what(), testing::HasSubstr(folder_.path().string()));
  }
}

// Frozen weights have no gradients or state. Each is read once per round, including the first ones
// of the next round, which are read at the end of this one.
TEST_F(NvmeTier, InferenceBringsEachWeightOnceARound) {
  options_.chunk_bytes = 1;  // each parameter has a chunk
  options_.window_bytes = 0;
  ChunkEngine engine(make_parameters(), context_, options_, {{0, {.forward = {0, 1, 2, 3}}}});
  engine.initialise(1);
  const ChunkEngine::StateBytes rest = engine.state_bytes(Tier::nvme);
  EXPECT_EQ(rest.total(), rest.parameters);
  EXPECT_EQ(engine.state_bytes(Tier::device).total(), 0);
  std::map<std::string, at::Tensor> expected;
  engine.for_each_checkpoint_shard([&](const OwnedShard& piece) {
    expected[piece.parameter->name] = piece.working().view(piece.parameter->shape);
  });
  const at::NoGradGuard no_grad;
  engine.begin_inference();
  const auto read = [&] {
    return engine.tier_traffic().at({Tier::nvme, MemoryKind::parameters}).from;
  };
  for (int round = 0; round < 3; ++round) {
    for (const nn::ParameterHandle& parameter : engine.parameters()) {
      nn::LayerScope scope("layer");
      EXPECT_TRUE(at::equal(parameter.use(scope), expected.at(parameter->name)));
    }
    const int64_t next = rest.parameters / 4;
    EXPECT_GT(read(), (round + 1) * rest.parameters);
    EXPECT_LT(read(), (round + 1) * rest.parameters + 2 * next);
  }
}

TEST_F(NvmeTier, AFileThatEndsIsAnError) {
  ChunkEngine engine(make_parameters(), context_, optimizer_, options_);
  engine.initialise(1);
  step(engine);
  ASSERT_EQ(::ftruncate(engine.tier_pools().swap().descriptor(), 4096), 0);
  EXPECT_THROW(step(engine), IoError);
}

TEST_F(NvmeTier, AFolderThatIsNoneIsRefused) {
  options_.tiers.nvme_path = folder_.path() / "missing";
  EXPECT_THROW(ChunkEngine(make_parameters(), context_, optimizer_, options_), IoError);
}

// With any number of chunks, only the last few gradients that were written are still in memory.
TEST_F(NvmeTier, GradientsThatWereWrittenMakeWay) {
  constexpr int64_t kChunks = 40, kElements = 32'768;
  nn::ParameterList parameters;
  for (int64_t i = 0; i < kChunks; ++i) {
    parameters.emplace_back(std::make_shared<nn::Parameter>(
        nn::Parameter{.name = fmt::format("weight{}", i), .shape = {kElements}}));
  }
  options_.chunk_bytes = 1;
  options_.window_bytes = 0;
  ChunkEngine engine(parameters, context_, optimizer_, options_);
  engine.initialise(1);
  engine.begin_step();
  engine.begin_micro_batch();
  engine.begin_backward(/*last=*/true);
  for (const nn::ParameterHandle& parameter : parameters) backward_of_sum(parameter, 1);
  engine.end_backward();
  engine.finish_reduction();
  const int64_t gradients = kChunks * kElements * static_cast<int64_t>(sizeof(double));
  EXPECT_LT(engine.tier_pools().host_peak_bytes(), gradients / 2);
}

TEST_F(NvmeTier, LeavesNothingBehindAndGrowsNothing) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  ChunkEngine engine(make_parameters(), context_, optimizer_, options_);
  engine.initialise(1);
  step(engine);
  const auto open = descriptors();
  const int64_t host = engine.tier_pools().host_peak_bytes();
  for (int i = 0; i < 200; ++i) step(engine);
  EXPECT_EQ(descriptors(), open);
  EXPECT_EQ(engine.tier_pools().host_peak_bytes(), host);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace colossal::memory
