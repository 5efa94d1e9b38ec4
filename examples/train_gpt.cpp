// Our GPT-2 on any text files, on one rank: the pieces that `colossal train` is made of.
//   build/example_train_gpt 'src/**/*.cpp'
#include <colossal/comm/world.h>
#include <colossal/data/batch_loader.h>
#include <colossal/engine/booster.h>
#include <colossal/models/families.h>
#include <colossal/nn/dense_builder.h>

#include <cstdio>

using namespace colossal;

int main(int argc, char** arguments) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILES\n  FILES: text to learn from, such as 'src/**/*.cpp'\n",
                 arguments[0]);
    return 2;
  }
  const auto world = comm::single_world();
  const ParallelContext context(*world, Strategy{});

  // A model, written as for one device; the builder decides what stands behind its layers.
  const auto specification = models::resolve_model({.preset = "gpt2-tiny"});
  nn::DenseBuilder build;
  const auto model = models::build_model(specification, build);

  // Text to samples of 128 bytes.
  const auto tokenizer = text::make_tokenizer("bytes");
  const data::TokenDataset dataset(
      data::Corpus::open(std::vector<std::string>{arguments[1]}, *tokenizer), 128);

  EngineConfig config{.total_steps = 50, .global_batch = 8};
  config.optimizer.learning_rate = 1e-3;
  const auto engine =
      Booster(context).boost(build.parameters(), stages_of(*model, context.strategy()), config);

  auto batches =
      data::make_training_loader(data::Mixture(dataset, /*seed=*/0),
                                 {.global_batch = config.global_batch}, 0, config.total_steps);
  for (int64_t step = 0; step < config.total_steps; ++step) {
    const StepResult result = engine->step(batches.next());
    if (result.step % 10 == 0) std::printf("step %3ld  loss %.4f\n", result.step, result.loss);
  }
}
