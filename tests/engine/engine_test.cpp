// When a request to stop is read: as late as all ranks can still agree on it.
#include "colossal/engine/engine.h"
#include "colossal/data/text_batch.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "colossal/engine/booster.h"
#include "tests/support/run_ranks.h"

namespace colossal {
namespace {

struct OneLayer : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 1));
};

// The last rank is asked to stop while it computes its last loss.
class AskedWhileComputing {
 public:
  explicit AskedWhileComputing(comm::World& world)
      : world_(world), context_(world, Strategy{.dp = world.size()}) {}

  std::unique_ptr<Engine> make_engine() {
    const auto loss = [this](const data::Batch& batch, const nn::StepContext&) {
      asked_ = ++losses_ == 2 && world_.rank() == world_.size() - 1;
      return LossSum{module_.layer->forward(batch.at(data::kTokens)).sum(),
                     batch.at(data::kLabels).numel()};
    };
    return Booster(context_).boost(module_, loss, {.global_batch = 2 * world_.size()});
  }

  std::vector<data::Batch> batches() const {
    const data::Batch one = data::text_batch(at::ones({1, 2}), at::zeros({1, 1}, at::kLong), {0});
    return {one, one};
  }

  bool asked() const { return asked_; }

 private:
  comm::World& world_;
  ParallelContext context_;
  OneLayer module_;
  int losses_ = 0;
  bool asked_ = false;
};

TEST(StopRequest, within_a_step_makes_it_the_last_on_all_ranks) {
  test::run_ranks(2, [](comm::World& world) {
    AskedWhileComputing run(world);
    const auto engine = run.make_engine();
    EXPECT_TRUE(engine->step(run.batches(), {.stop_requested = [&] { return run.asked(); }})
                    .stop_requested);
  });
}

TEST(StopRequest, within_an_evaluation_is_known_to_all_ranks) {
  test::run_ranks(2, [](comm::World& world) {
    AskedWhileComputing run(world);
    const auto engine = run.make_engine();
    EXPECT_TRUE(engine->evaluate(run.batches(), [&] { return run.asked(); }).stop_requested);
  });
}

TEST(StopRequest, that_nobody_made_stops_nothing) {
  test::run_ranks(2, [](comm::World& world) {
    AskedWhileComputing run(world);
    EXPECT_FALSE(run.make_engine()->step(run.batches()).stop_requested);
  });
}

}  // namespace
}  // namespace colossal
