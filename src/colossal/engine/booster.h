// Prepares a model for parallel training in a program of your own: Booster::boost() returns an
// Engine, whose step() trains. This is the entry point of the library:
//
//   auto world = comm::single_world();  // one rank; for worlds of several ranks see comm/world.h
//   ParallelContext context(*world, Strategy{});  // Strategy: the sizes of dp, pp, sp, tp, ...
//   auto engine = Booster(context).boost(module, loss, {.optimizer = ..., .global_batch = 32});
//   StepResult result = engine->step({batch});  // the micro-batches of this rank's replica
#pragma once

#include <memory>

#include "colossal/engine/engine.h"
#include "colossal/engine/module_stages.h"

namespace colossal {

// Makes engines that train models at the layout of a ParallelContext. All ranks must call the same
// overload of boost() with the same arguments.
class Booster {
 public:
  // `context` must outlive this and all engines.
  explicit Booster(const ParallelContext& context) : context_(context) {}

  // Makes an engine for a model built from the layers of colossal::nn: `parameters` are those of
  // the nn::Builder, and `model` is the result of stages_of() (staged_model.h) or pipelined()
  // (state_shapes.h). The layers must have been built for this context's layout. Initialises the
  // weights from config.seed.
  std::unique_ptr<Engine> boost(const nn::ParameterList& parameters, StagedModel model,
                                EngineConfig config) const;

  // Makes an engine for a user's own torch module. Supports data parallelism, ZeRO, precision,
  // optimizers and checkpoints. The engine stores the module's parameters and updates them; `loss`
  // runs the module on a micro-batch and returns its loss. The module must outlive the engine. The
  // weights of rank 0 are broadcast to all ranks. The module's dropout draws LibTorch's random
  // numbers, so with dropout the results depend on the layout. With several ranks, a warning is
  // then logged once. The module's buffers are not synchronised: each rank keeps its own. Throws
  // ConfigError if an axis other than dp has more than one rank.
  std::unique_ptr<Engine> boost(torch::nn::Module& module, LossFunction loss,
                                EngineConfig config) const;

  // Makes an engine for a chain of the user's own modules. Supports data parallelism and pipeline
  // parallelism, ZeRO, precision, optimizers and checkpoints. Each stage has some consecutive
  // modules of the chain (parts_of_stages()). The last module's ModulePart returns the loss. The
  // notes on dropout and buffers of the overload above apply here, too. Parameters are named as in
  // torch::nn::Sequential, however the chain is cut: "2.up.weight" in the third module. The weights
  // of the first replica are broadcast to all replicas. Throws ConfigError if an axis other than
  // dp and pp has more than one rank, or if modules of two stages share a parameter; also as
  // parts_of_stages().
  std::unique_ptr<Engine> boost(const std::vector<ModulePart>& parts, EngineConfig config) const;

 private:
  const ParallelContext& context_;
};

}  // namespace colossal
