// ModuleEngine trains parameters of a user's own in a loop of the user's own: the program runs
// forward passes, computes losses and calls backward() as it likes, and says where passes begin and
// end. Engine (engine.h) runs the loop itself.
//
//   ModuleEngine engine({{.name = "weight", .tensor = weight}}, context, config);
//   for (...) {
//     engine.begin_forward();
//     at::Tensor loss = ...;
//     engine.end_forward();
//     engine.begin_backward(/*last=*/true);
//     loss.backward();
//     engine.end_backward();
//     engine.update({.learning_rate = 1e-3});
//   }
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/engine/control.h"
#include "colossal/engine/engine_config.h"
#include "colossal/engine/foreign_parameters.h"
#include "colossal/engine/non_finite_error.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

// Not thread-safe: passes begin and end on one thread, on which autograd saves tensors.
class ModuleEngine {
 public:
  using Parameters = std::vector<ForeignParameter>;

  // Takes over the parameters (foreign_parameters.h): their gradients are no longer accumulated in
  // their grad(), but summed over ranks. config: optimizer, precision, tiers and the fields of
  // memory::ChunkOptions; the schedule, the batch and the clipping are the caller's. `context` must
  // outlive this. Collective. Throws ConfigError if an axis other than dp has more than one rank.
  ModuleEngine(const Parameters& parameters, const ParallelContext& context, EngineConfig config);
  ~ModuleEngine();

  // How a forward pass gets weights that are sharded or offloaded.
  enum class Fetching {
    ahead,      // before they are used, in the order of the first pass; all at once in that pass.
                // From a use in another order on, as `on_demand`
    on_demand,  // when they are used: for a pass of a part of the model
    all,        // all at once: for a pass that uses weights without before_use()
  };

  // Call these around the program's passes. A step may have any number of forward passes before a
  // backward pass, of backward passes, and of evaluations in between; passes do not overlap. If
  // weights are sharded or offloaded, all ranks run the same passes. last: whether it may be the
  // last backward pass before update(): gradients are then summed over ranks, those of passes
  // before it included. Throw ConfigError if called in another order.
  void begin_forward(Fetching fetching = Fetching::ahead);
  void end_forward();
  void begin_backward(bool last);
  void end_backward();
  // begin: called when a backward pass runs that was not announced: it must call begin_backward()
  // or begin_query(). Without it, such a pass is an error.
  void on_unannounced_pass(std::function<void()> begin) {
    chunks_.on_unannounced_pass(std::move(begin));
  }
  // Around a backward pass that computes gradients, but not those of parameters.
  void begin_query();
  void end_query();
  // Around a forward pass without gradients.
  void begin_evaluation(Fetching fetching = Fetching::ahead);
  void end_evaluation();
  // Between these, all weights are whole on the device, to be read.
  void begin_gathering();
  void end_gathering();
  // Drops the gradients of the step so far; forward passes whose backward passes are to come stay.
  void discard_gradients();
  // After an exception: ends the pass that runs, and discards gradients.
  void abandon_pass();

  // Whether weights are whole on the device only around their uses. Call before_use() and
  // after_use() then around each use of a weight in a forward pass; in a backward pass, those that
  // autograd has saved come by themselves. They do nothing for other tensors.
  bool weights_are_transient() const { return chunks_.weights_are_transient(); }
  void before_use(const at::Tensor& weight);
  void after_use(const at::Tensor& weight);

  struct Update {
    double learning_rate = 0;
    double gradient_clip = 0;  // gradients are scaled down to this global norm; 0: no clipping
    bool stop_requested = false;
  };
  struct Result {
    int64_t step = 0;             // number of this update, from 1
    double grad_norm = 0;         // of the gradients' mean over replicas, before clipping
    bool skipped = false;         // true: no rank has had a backward pass since the last update
    bool stop_requested = false;  // by any rank
  };
  // Updates the weights with the mean over the replicas of the gradients of the step, as
  // DistributedDataParallel computes it. Collective. Throws NonFiniteError, and discards the
  // gradients; IoError and CommError;
  // ConfigError if the last backward pass was not begun with `last`.
  Result update(const Update& update);
  // The norm that update() will return and clip to. Collective; throws as update() does.
  double gradient_norm();

  memory::ChunkEngine& chunks() { return chunks_; }
  const memory::ChunkEngine& chunks() const { return chunks_; }
  int64_t steps_done() const { return steps_done_; }
  void set_steps_done(int64_t steps) { steps_done_ = steps; }

 private:
  enum class Pass { none, forward, backward, query, evaluation, gathering };
  static const char* name_of(Pass pass);
  void begin_fetching(Fetching fetching);
  // Finishes the reduction of the step's gradients. Returns what the ranks have, in sum.
  ControlSums sum_over_ranks(bool stop_requested);
  void begin(Pass pass);
  void end(Pass pass);

  const ParallelContext& context_;
  EngineConfig config_;
  nn::ParameterList parameters_;
  memory::ChunkEngine chunks_;
  memory::Activations activations_;
  std::optional<memory::Activations::Scope> saving_;  // from a forward to a backward pass
  memory::HeldGradients held_;                        // none: of queries
  Pass pass_ = Pass::none;
  bool in_step_ = false;  // since the first forward pass after an update
  bool reduced_ = false;  // whether the last backward pass was begun with `last`
  bool any_backward_ = false;
  std::optional<ops::PendingSum> squared_norm_;  // of this rank's part of the step's gradients
  int64_t steps_done_ = 0;
};

}  // namespace colossal
