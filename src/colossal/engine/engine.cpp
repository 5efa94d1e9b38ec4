#include "colossal/engine/engine.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/nn/layer_scope.h"

namespace colossal {
namespace {

// The ranks of a tensor-parallel group all report the same labels and loss, and the ranks of a
// replica all report the same inputs: divides the sums by the number of these ranks.
ControlSums reduce(const ControlMessage& mine, const ParallelContext& context) {
  const Strategy& strategy = context.strategy();
  ControlSums all = reduce_control(mine, context.world_group());
  all.loss_sum /= strategy.tp;
  all.token_count /= strategy.tp;
  all.input_count /= strategy.pp * strategy.sp * strategy.tp;
  return all;
}

}  // namespace

Engine::Engine(nn::ParameterList parameters, LossFunction loss, const ParallelContext& context,
               const EngineConfig& config)
    : Engine(std::move(parameters), one_stage(std::move(loss)), context, config) {
  COLOSSAL_CHECK(context.strategy().num_stages() == 1, "one loss function for {} stages",
                 context.strategy().num_stages());
}

Engine::Engine(nn::ParameterList parameters, StagedModel model, const ParallelContext& context,
               const EngineConfig& config)
    : context_(context),
      config_(config),
      schedule_(config.schedule, config.optimizer.learning_rate, config.total_steps),
      optimizers_(parameter_groups(config.optimizer, parameters)),
      chunks_(std::move(parameters), context, optimizers_, chunk_options(config), config.order),
      activations_(chunks_, config.recompute, config.tiers.activations),
      model_(std::move(model)),
      executor_(context_, model_, chunks_, activations_,
                {.uses_handles = config.uses_parameter_handles,
                 .stage_costs = config.stage_costs,
                 .metrics = config.metrics}) {
  if (config.router_bias_rate > 0) {
    router_balance_.emplace(chunks_, context_, config.num_blocks, config.experts,
                            config.router_bias_rate);
  }
}

ControlMessage Engine::empty_message() const {
  ControlMessage message;
  message.metrics.resize(2 * config_.metrics.size());
  message.maxima.resize(std::ranges::count_if(config_.metrics, is_maximum) *
                        context_.world_group().size());
  if (config_.experts > 0) {
    message.routers.resize(config_.num_blocks * config_.experts + kRouterSums);
  }
  return message;
}

std::map<std::string, double> Engine::means_of_metrics(const ControlSums& all) const {
  std::map<std::string, double> means;
  auto next_maximum = all.maxima.begin();
  for (size_t i = 0; i < config_.metrics.size(); ++i) {
    const double sum = all.metrics[2 * i], count = all.metrics[2 * i + 1];
    if (count > 0) means[config_.metrics[i]] = sum / count;
    if (!is_maximum(config_.metrics[i])) continue;
    const auto of_ranks = next_maximum;
    next_maximum += context_.world_group().size();
    if (count > 0) means[config_.metrics[i]] = *std::max_element(of_ranks, next_maximum);
  }
  return means;
}

RowsOfExperts Engine::rows_of_experts(const ControlSums& all) const {
  RowsOfExperts rows;
  auto counts = all.routers.begin();
  for (int64_t layer = 0; layer < config_.num_blocks; ++layer, counts += config_.experts) {
    std::vector<int64_t>& of_layer = rows.emplace_back(counts, counts + config_.experts);
    if (std::ranges::count(of_layer, 0) == config_.experts) of_layer.clear();
  }
  return rows;
}

// Adds router_load, the rows of the busiest expert of any layer divided by the mean of the layer's
// experts, and the other metrics of routers.
void Engine::add_router_metrics(const ControlSums& all,
                                std::map<std::string, double>& metrics) const {
  double load = 0, all_rows = 0;
  const double* counts = all.routers.data();
  for (int64_t layer = 0; layer < config_.num_blocks; ++layer, counts += config_.experts) {
    const double rows = std::accumulate(counts, counts + config_.experts, 0.0);
    if (rows == 0) continue;  // a layer without experts
    all_rows += rows;
    const double most = *std::max_element(counts, counts + config_.experts);
    load = std::max(load, most * static_cast<double>(config_.experts) / rows);
  }
  metrics["router_load"] = load;
  if (config_.routers_drop) {
    const double dropped = router_sum(all, kDropped);
    metrics["router_dropped"] = dropped / (all_rows + dropped);
  }
  if (context_.strategy().expert_copies > 0) {
    // All ranks of a stage count the copies of its layers.
    metrics["expert_copies"] = router_sum(all, kCopies) / context_.stage_group().size();
  }
  if (const double term = router_sum(all, kRouterTerm); term != 0) {
    metrics["auxiliary_loss"] = term / all.token_count;
  }
}

template <typename Part>
auto Engine::in_step(const Part& part) {
  const int64_t number = steps_done_ + 1;
  const auto failed = [&](const std::exception& error) {
    const std::string message = fmt::format("step {}: {}", number, error.what());
    before_abort_();
    // Now, while the groups exist: their destructors would wait for messages that no peer sends.
    context_.world().abort(message);
    return message;
  };
  try {
    return part();
  } catch (const NonFiniteError&) {
    throw;  // on all ranks alike
  } catch (const IoError& error) {
    throw IoError(failed(error));
  } catch (const CommError& error) {
    throw CommError(failed(error));
  } catch (const std::exception& error) {
    failed(error);
    throw;
  }
}

StepResult Engine::step(const std::vector<data::Batch>& micro_batches,
                        const UpdateRequest& request) {
  forward_backward(micro_batches);
  return update(request);
}

void Engine::forward_backward(const std::vector<data::Batch>& micro_batches) {
  COLOSSAL_CHECK(!micro_batches.empty(), "a step of {} micro-batches", micro_batches.size());
  in_step([&] {
    control_ = empty_message();
    chunks_.begin_step();
    executor_.train(micro_batches, {steps_done_, config_.seed}, gradient_scale(), control_);
    chunks_.finish_reduction();
  });
  for (const data::Batch& batch : micro_batches) {
    control_.input_count += static_cast<double>(batch.units);
  }
  // A dry run may lack the rank with the last stage, which counts labels.
  if (context_.device().is_meta() && control_.token_count.known() == 0) {
    control_.token_count = control_.input_count;
  }
}

StepResult Engine::update(const UpdateRequest& request) {
  return in_step([&] { return run_update(request); });
}

// Returns the factor of every loss, before backward. It must be known before labels are counted and
// equal on all ranks; run_update() corrects the gradients by the number of labels.
double Engine::gradient_scale() const {
  return 1.0 / static_cast<double>(config_.global_batch);
}

StepResult Engine::run_update(const UpdateRequest& request) {
  ControlMessage mine = std::exchange(control_, {});
  mine.squared_norm = chunks_.squared_gradient_norm();
  const std::vector<double> of_parameters = chunks_.used();
  mine.used.assign(of_parameters.begin(), of_parameters.end());
  // Asked as late as possible: if the answer is yes, this step is the last.
  mine.stop_requested = request.stop_requested() ? 1 : 0;
  const ControlSums all = reduce(mine, context_);
  if (!std::isfinite(all.squared_norm) || !std::isfinite(all.loss_sum)) {
    throw_non_finite(steps_done_ + 1, std::isfinite(mine.loss_sum.value()), chunks_, context_);
  }

  StepResult result;
  result.step = ++steps_done_;
  result.stop_requested = all.stop_requested > 0;
  result.units = std::llround(all.input_count);
  result.learning_rate = schedule_.learning_rate(result.step);
  result.metrics = means_of_metrics(all);
  if (all.token_count == 0) {
    result.skipped = true;
    return result;
  }
  if (config_.experts > 0) {
    add_router_metrics(all, result.metrics);
    result.expert_rows = rows_of_experts(all);
  }
  const double correction = 1 / (gradient_scale() * all.token_count);
  result.loss = all.loss_sum / all.token_count;
  result.grad_norm = std::sqrt(all.squared_norm) * correction;
  // The coefficient of torch.nn.utils.clip_grad_norm_.
  const double clip = config_.gradient_clip > 0
                          ? std::min(1.0, config_.gradient_clip / (result.grad_norm + 1e-6))
                          : 1.0;
  std::vector<bool> used;
  for (double ranks : all.used) used.push_back(ranks > 0);
  request.before_update();
  const nn::LayerScope scope("optimizer");
  chunks_.update({.learning_rate = result.learning_rate, .gradient_scale = correction * clip},
                 used);
  if (router_balance_) router_balance_->after_update(all.routers);
  return result;
}

Engine::Evaluation Engine::evaluate(const std::vector<data::Batch>& micro_batches,
                                    const std::function<bool()>& stop_requested,
                                    const StagedModel* stages) {
  ControlMessage mine = empty_message();
  executor_.evaluate(stages ? *stages : model_, micro_batches, {steps_done_, config_.seed}, mine);
  mine.stop_requested = stop_requested() ? 1 : 0;
  const ControlSums all = reduce(mine, context_);
  return {.loss_sum = all.loss_sum,
          .count = all.token_count,
          .stop_requested = all.stop_requested > 0,
          .metrics = means_of_metrics(all)};
}

}  // namespace colossal
