#include "colossal/booster/engine.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "colossal/memory/fetch_on_dispatch.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/parallel/sequence/positions.h"

namespace colossal {
namespace {

memory::ChunkOptions chunk_options(const EngineConfig& config) {
  return {.working = config.precision.compute,
          .master = config.precision.master,
          .gradient = config.precision.gradient,
          .chunk_bytes = config.chunk_bytes,
          .accumulate_whole = config.accumulate_whole,
          .window_bytes = config.window_bytes,
          .handles_used = config.handles_used,
          .tiers = config.tiers};
}

int64_t sequence_of(const data::Batch& batch) {
  return batch.inputs.dim() > 1 ? batch.inputs.size(1) : 1;
}

// Of a sequence that several ranks share, the positions that are this rank's: [positions], host.
at::Tensor positions_here(const data::Batch& batch, const ParallelContext& context) {
  const Strategy& strategy = context.strategy();
  COLOSSAL_CHECK(sequence_of(batch) >= strategy.sp, "{} positions for sp = {}", sequence_of(batch),
                 strategy.sp);
  std::vector<at::Tensor> runs;
  for (const Range& run : parallel::positions_of_rank(strategy.sequence_mode, sequence_of(batch),
                                                      strategy.sp, context.coordinate(Axis::sp))) {
    runs.push_back(at::arange(run.begin, run.end, at::kLong));
  }
  return at::cat(runs);
}

// What of a batch is this rank's, where it computes.
data::Batch batch_here(const data::Batch& batch, const ParallelContext& context) {
  const bool whole = context.strategy().sp == 1;
  const at::Tensor positions = whole ? at::Tensor() : positions_here(batch, context);
  const auto here = [&](const at::Tensor& tensor) {
    return (whole ? tensor : tensor.index_select(1, positions)).to(context.device());
  };
  return {here(batch.inputs), here(batch.labels), batch.sample_ids};
}

// The ranks of a tensor-parallel group see the same labels and have the same loss.
ControlMessage reduce(const ControlMessage& mine, const ParallelContext& context) {
  ControlMessage all = reduce_control(mine, context.world_group());
  all.loss_sum /= context.strategy().tp;
  all.token_count /= context.strategy().tp;
  return all;
}

int64_t per_sequence(const at::Tensor& tensor) {
  return tensor.numel() / tensor.size(0);
}

}  // namespace

NonFiniteError::NonFiniteError(int64_t step, const std::string& what)
    : Error(fmt::format("step {}: {} is not finite; no rank has updated", step, what)),
      step(step) {}

Engine::Engine(nn::ParameterList parameters, LossFunction loss, const ParallelContext& context,
               const EngineConfig& config)
    : loss_(std::move(loss)),
      context_(context),
      config_(config),
      optimizer_(optim::make_optimizer(config.optimizer)),
      schedule_(config.schedule, config.optimizer.learning_rate, config.total_steps),
      chunks_(std::move(parameters), context, *optimizer_, chunk_options(config), config.order),
      activations_(chunks_, config.recompute, config.tiers.activations) {}

nn::StepContext Engine::context_for(const data::Batch& batch, bool training) {
  const at::Tensor positions = positions_here(batch, context_);
  nn::StepContext context =
      nn::make_step_context(batch.inputs.size(0), positions.numel(), context_.device());
  context.positions = positions.to(context_.device());
  context.whole_sequence = sequence_of(batch);
  context.seed = config_.seed;
  context.step = steps_done_;
  context.training = training;
  context.sample_ids = batch.sample_ids;
  if (batch.documents.defined()) context.documents = batch.documents.to(context_.device());
  if (training) context.block_runner = &activations_;
  return context;
}

LossSum Engine::loss_of(const data::Batch& batch, bool training) {
  std::optional<memory::FetchOnDispatch> fetching;
  if (!config_.handles_used && chunks_.weights_go_away()) fetching.emplace(chunks_);
  return loss_(batch_here(batch, context_), context_for(batch, training));
}

void Engine::run_micro_batch(const data::Batch& batch, double upstream, ControlMessage& control) {
  const LossSum loss = [&] {
    const nn::LayerScope scope("model");
    const memory::Activations::Scope saving(activations_);
    return loss_of(batch, /*training=*/true);
  }();
  chunks_.begin_backward();
  {
    const nn::LayerScope scope("backward");
    torch::autograd::backward({loss.sum}, {at::full({}, upstream, loss.sum.options())});
  }
  control.token_count += static_cast<double>(loss.count);
  if (!loss.sum.is_meta()) control.loss_sum += loss.sum.item<double>();
}

StepResult Engine::step(const std::vector<data::Batch>& micro_batches,
                        const std::function<bool()>& stop_requested,
                        const std::function<void()>& before_update) {
  const int64_t number = steps_done_ + 1;
  try {
    return run_step(micro_batches, stop_requested, before_update);
  } catch (const IoError& error) {
    throw IoError(fmt::format("step {}: {}", number, error.what()));
  }
}

StepResult Engine::run_step(const std::vector<data::Batch>& micro_batches,
                            const std::function<bool()>& stop_requested,
                            const std::function<void()>& before_update) {
  COLOSSAL_CHECK(!micro_batches.empty(), "a step of {} micro-batches", micro_batches.size());
  const data::Batch& first = micro_batches.front();
  // Known before any label is seen, and equal on all ranks; the update corrects by the true count.
  const int64_t slots = config_.global_batch * per_sequence(first.labels);
  ControlMessage mine;
  chunks_.begin_step();
  for (const data::Batch& batch : micro_batches) {
    chunks_.begin_micro_batch(&batch == &micro_batches.back());
    run_micro_batch(batch, 1.0 / static_cast<double>(slots), mine);
    chunks_.end_micro_batch();
  }
  chunks_.finish_reduction();
  mine.squared_norm = chunks_.squared_gradient_norm();
  mine.non_finite = std::isfinite(mine.squared_norm) && std::isfinite(mine.loss_sum) ? 0 : 1;
  mine.used = chunks_.used();
  mine.stop_requested = stop_requested() ? 1 : 0;  // as late as can be: this step is the last then
  const ControlMessage all = reduce(mine, context_);
  if (all.non_finite > 0) refuse_non_finite(mine);

  StepResult result;
  result.step = ++steps_done_;
  result.stop_requested = all.stop_requested > 0;
  result.tokens = config_.global_batch * per_sequence(first.inputs);
  result.learning_rate = schedule_.learning_rate(result.step);
  if (all.token_count == 0) {
    result.skipped = true;
    return result;
  }
  const double correction = static_cast<double>(slots) / all.token_count;
  result.loss = all.loss_sum / all.token_count;
  result.grad_norm = std::sqrt(all.squared_norm) * correction;
  // torch.nn.utils.clip_grad_norm_'s coefficient.
  const double clip = config_.gradient_clip > 0
                          ? std::min(1.0, config_.gradient_clip / (result.grad_norm + 1e-6))
                          : 1.0;
  std::vector<bool> used;
  for (double ranks : all.used) used.push_back(ranks > 0);
  before_update();
  const nn::LayerScope scope("optimizer");
  chunks_.update({.learning_rate = result.learning_rate,
                  .weight_decay = config_.optimizer.weight_decay,
                  .gradient_scale = correction * clip},
                 used);
  return result;
}

// All ranks come here together: each names its first bad tensor, and all report the same one.
void Engine::refuse_non_finite(const ControlMessage& mine) {
  std::string what = chunks_.first_non_finite_gradient();
  if (!what.empty()) what = "the gradient of " + what;
  if (!std::isfinite(mine.loss_sum)) what = "the loss";
  for (const std::string& found :
       comm::gather_bytes(what, context_.world_group(), comm::Reason::control)) {
    if (!found.empty()) throw NonFiniteError(steps_done_ + 1, found);
  }
  throw NonFiniteError(steps_done_ + 1, "a sum of gradients");
}

Engine::Evaluation Engine::evaluate(const std::vector<data::Batch>& micro_batches,
                                    const std::function<bool()>& stop_requested) {
  at::NoGradGuard no_grad;
  ControlMessage mine;
  for (const data::Batch& batch : micro_batches) {
    chunks_.begin_evaluation();  // also for no sequences: other replicas may have some
    LossSum loss;
    if (batch.inputs.size(0) > 0) loss = loss_of(batch, /*training=*/false);
    chunks_.end_evaluation();
    if (!loss.sum.defined()) continue;
    mine.loss_sum += loss.sum.item<double>();
    mine.token_count += static_cast<double>(loss.count);
  }
  mine.stop_requested = stop_requested() ? 1 : 0;
  const ControlMessage all = reduce(mine, context_);
  return {all.loss_sum, all.token_count, all.stop_requested > 0};
}

}  // namespace colossal
