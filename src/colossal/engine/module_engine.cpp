#include "colossal/engine/module_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "colossal/base/error.h"

namespace colossal {
namespace {

nn::ParameterList take_over(const ModuleEngine::Parameters& parameters,
                            const ParallelContext& context) {
  refuse_axes_of_modules(context.strategy(), /*in_parts=*/false);
  ForeignParameters taken(context);
  for (const ForeignParameter& parameter : parameters) taken.add(parameter);
  return taken.take();
}

EngineConfig without_handles(EngineConfig config) {
  config.uses_parameter_handles = false;
  return config;
}

}  // namespace

ModuleEngine::ModuleEngine(const Parameters& parameters, const ParallelContext& context,
                           EngineConfig config)
    : context_(context),
      config_(without_handles(std::move(config))),
      parameters_(take_over(parameters, context)),
      chunks_(parameters_, context, parameter_groups(config_.optimizer, parameters_),
              chunk_options(config_)),
      activations_(chunks_, config_.recompute, config_.tiers.activations) {}

ModuleEngine::~ModuleEngine() = default;

const char* ModuleEngine::name_of(Pass pass) {
  constexpr const char* kNames[] = {"no pass",         "a forward pass",
                                    "a backward pass", "a query of gradients",
                                    "an evaluation",   "a gathering of weights"};
  return kNames[static_cast<int>(pass)];
}

void ModuleEngine::begin(Pass pass) {
  if (pass_ != Pass::none) {
    throw ConfigError(fmt::format("{} begins before {} has ended", name_of(pass), name_of(pass_)));
  }
  pass_ = pass;
}

void ModuleEngine::end(Pass pass) {
  if (pass_ != pass) {
    throw ConfigError(fmt::format("{} ends, but {} runs", name_of(pass), name_of(pass_)));
  }
  pass_ = Pass::none;
}

void ModuleEngine::begin_fetching(Fetching fetching) {
  switch (fetching) {
    case Fetching::ahead:
      return pass_ == Pass::forward ? chunks_.begin_forward(/*stage=*/0)
                                    : chunks_.begin_evaluation();
    case Fetching::on_demand:
      return chunks_.begin_on_demand();
    case Fetching::all:
      return chunks_.begin_gathering();
  }
}

void ModuleEngine::begin_forward(Fetching fetching) {
  begin(Pass::forward);
  if (!std::exchange(in_step_, true)) chunks_.begin_step();
  begin_fetching(fetching);
  if (!saving_) saving_.emplace(activations_);
}

void ModuleEngine::end_forward() {
  end(Pass::forward);
  chunks_.end_forward();
}

void ModuleEngine::begin_backward(bool last) {
  begin(Pass::backward);
  if (!std::exchange(in_step_, true)) chunks_.begin_step();
  any_backward_ = true;
  reduced_ = last;
  squared_norm_.reset();
  chunks_.begin_backward(last);
}

void ModuleEngine::end_backward() {
  end(Pass::backward);
  saving_.reset();
  chunks_.end_backward();
}

void ModuleEngine::begin_query() {
  begin(Pass::query);
  chunks_.begin_backward_input(/*stage=*/0, held_);
}

void ModuleEngine::end_query() {
  end(Pass::query);
  chunks_.end_backward_input();
}

void ModuleEngine::begin_evaluation(Fetching fetching) {
  begin(Pass::evaluation);
  begin_fetching(fetching);
}

void ModuleEngine::end_evaluation() {
  end(Pass::evaluation);
  chunks_.end_evaluation();
}

void ModuleEngine::begin_gathering() {
  begin(Pass::gathering);
  chunks_.synchronize();
  chunks_.begin_gathering();
  for (const nn::ParameterHandle& parameter : parameters_) before_use(parameter->tensor);
}

void ModuleEngine::end_gathering() {
  end(Pass::gathering);
  for (const nn::ParameterHandle& parameter : parameters_) after_use(parameter->tensor);
  chunks_.end_gathering();
}

void ModuleEngine::discard_gradients() {
  if (!any_backward_) return;
  chunks_.finish_reduction();  // those under way: ZeRO reduces each micro-batch from stage 2 on
  any_backward_ = reduced_ = false;
  squared_norm_.reset();
  chunks_.begin_step();
}

void ModuleEngine::abandon_pass() {
  switch (pass_) {
    case Pass::none:
      return;
    case Pass::forward:
      end_forward();
      break;
    case Pass::backward:
      end_backward();
      break;
    case Pass::query:
      end_query();
      break;
    case Pass::evaluation:
      end_evaluation();
      break;
    case Pass::gathering:
      end_gathering();
      break;
  }
  saving_.reset();
  discard_gradients();
}

void ModuleEngine::before_use(const at::Tensor& weight) {
  if (chunks_.is_transient(weight)) chunks_.before_use(weight);
}

void ModuleEngine::after_use(const at::Tensor& weight) {
  if (chunks_.is_transient(weight)) chunks_.after_use(weight);
}

ControlSums ModuleEngine::sum_over_ranks(bool stop_requested) {
  if (pass_ != Pass::none) {
    throw ConfigError(fmt::format("an update while {} runs", name_of(pass_)));
  }
  if (any_backward_ && !reduced_) {
    throw ConfigError(
        "an update after a backward pass that was not the last of the step: its gradients are not "
        "summed over ranks; run the last one outside of no_sync");
  }
  saving_.reset();
  ControlMessage mine;
  mine.stop_requested = stop_requested ? 1 : 0;
  mine.used.assign(chunks_.parameters().size(), 0.0);
  if (any_backward_) {
    chunks_.finish_reduction();
    mine.token_count = 1;
    const std::vector<double> used = chunks_.used();
    mine.used.assign(used.begin(), used.end());
    if (!squared_norm_) squared_norm_ = chunks_.squared_gradient_norm();
    mine.squared_norm = *squared_norm_;
  }
  const ControlSums all = reduce_control(mine, context_.world_group());
  if (!std::isfinite(all.squared_norm)) {
    in_step_ = any_backward_ = reduced_ = false;
    throw_non_finite(steps_done_ + 1, /*loss_is_finite=*/true, chunks_, context_);
  }
  return all;
}

double ModuleEngine::gradient_norm() {
  return std::sqrt(sum_over_ranks(/*stop_requested=*/false).squared_norm) / context_.strategy().dp;
}

ModuleEngine::Result ModuleEngine::update(const Update& update) {
  const ControlSums all = sum_over_ranks(update.stop_requested);
  in_step_ = any_backward_ = reduced_ = false;
  Result result{.step = ++steps_done_, .stop_requested = all.stop_requested > 0};
  if (all.token_count == 0) {
    result.skipped = true;
    return result;
  }
  const int replicas = context_.strategy().dp;
  result.grad_norm = std::sqrt(all.squared_norm) / replicas;
  // The coefficient of torch.nn.utils.clip_grad_norm_.
  const double clip = update.gradient_clip > 0
                          ? std::min(1.0, update.gradient_clip / (result.grad_norm + 1e-6))
                          : 1.0;
  std::vector<bool> used;
  for (const double ranks : all.used) used.push_back(ranks > 0);
  chunks_.update({.learning_rate = update.learning_rate, .gradient_scale = clip / replicas}, used);
  for (size_t i = 0; i < used.size(); ++i) {
    // As after an operation in place: autograd refuses graphs that have saved the weights before.
    if (used[i]) chunks_.parameters()[i]->tensor.unsafeGetTensorImpl()->bump_version();
  }
  return result;
}

}  // namespace colossal
