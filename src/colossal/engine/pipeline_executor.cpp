#include "colossal/engine/pipeline_executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/engine/clock_alignment.h"
#include "colossal/job/pipeline_config.h"
#include "colossal/memory/fetch_on_dispatch.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/nn/router_records.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/parallel/pipeline/forward_only.h"
#include "colossal/parallel/sequence/positions.h"

namespace colossal {

using parallel::pipeline::Action;
using parallel::pipeline::ActionKind;
using Way = ParallelContext::Way;

namespace {

bool carries_gradient(const at::Tensor& tensor) {
  return tensor.is_floating_point();
}

// Returns the tensors of a state that carry gradients.
StageState with_gradients(const StageState& state) {
  StageState floating;
  for (const at::Tensor& tensor : state) {
    if (carries_gradient(tensor)) floating.push_back(tensor);
  }
  return floating;
}

}  // namespace

// One step, or one evaluation.
class PipelineExecutor::Run {
 public:
  Run(PipelineExecutor& executor, const StagedModel& model,
      std::span<const data::Batch> micro_batches, const Step& step, double upstream, bool training,
      ControlMessage& control)
      : executor_(executor),
        model_(model),
        context_(executor.context_),
        chunks_(executor.chunks_),
        micro_batches_(micro_batches),
        step_(step),
        upstream_(upstream),
        training_(training),
        control_(control),
        schedule_(training ? executor.training_schedule(micro_batches.size())
                           : executor.evaluation_schedule(micro_batches.size())),
        actions_(schedule_.actions.at(context_.coordinate(Axis::pp))) {}

  // Throws CommError that names the action of the schedule that failed, and the message that it
  // waited for.
  void run() {
    for (size_t next = 0; next < actions_.size(); ++next) {
      try {
        carry_out_timed(next);
      } catch (const CommError& error) {
        throw CommError(
            fmt::format("{}: {}", parallel::pipeline::in_words(actions_[next]), error.what()));
      }
      if (training_ && executor_.after_action_) executor_.after_action_(actions_[next]);
    }
    for (auto& [channel, messages] : sends_) {
      for (Message& message : messages) wait_for(message);
    }
  }

 private:
  using Key = std::pair<int, int>;  // stage, micro-batch

  // Tensors that travel between two stages.
  struct Message {
    Action action;  // this rank's action: the send or the receive
    StageState tensors;
    std::vector<comm::Work> work;
  };

  // A micro-batch between its forward and its backward pass in a stage.
  struct InFlight {
    StageState inputs;                         // leaves of the stage's graph
    std::vector<torch::autograd::Edge> roots;  // of the outputs that carry gradients
    LossSum loss;                              // of the last stage
  };

  // State between the two halves of a split backward pass.
  struct PutOff {
    memory::HeldGradients held;
    ops::DeferredGradients computations;
  };

  bool is_last(int stage) const { return stage + 1 == schedule_.num_stages(); }
  bool is_here(int stage) const { return context_.holds_stage(stage); }
  const data::Batch& batch_of(const Action& action) const {
    return micro_batches_[action.micro_batch];
  }
  bool has_sequences(const Action& action) const { return batch_of(action).rows() > 0; }
  // Returns whether the stage runs. Without sequences it still runs if experts are sharded: other
  // ranks send rows to this rank's experts.
  bool is_run(const Action& action) const {
    return has_sequences(action) || context_.strategy().expert_ranks() > 1;
  }

  // Describes the other end of a message, with its global rank.
  std::string other_end(const Action& message) const {
    const bool sends = parallel::pipeline::is_send(message.kind);
    const Action other =
        sends ? parallel::pipeline::receive_of(message) : parallel::pipeline::send_of(message);
    const Way way = parallel::pipeline::is_forward(message.kind) ? Way::forward : Way::backward;
    const comm::Group& channel = context_.stage_channel(std::min(message.stage, other.stage), way);
    return fmt::format("rank {} ({})", channel.ranks()[1 - channel.rank()],
                       parallel::pipeline::in_words(other));
  }

  void carry_out_timed(size_t position) {
    const Action& action = actions_[position];
    if (!is_recorded()) return carry_out(action, position);
    idle_until_ = steady_seconds();
    carry_out(action, position);
    if (!parallel::pipeline::is_computation(action.kind)) return;
    note({.action = action, .waits = false, .begin = idle_until_, .end = steady_seconds()});
  }

  bool is_recorded() const { return training_ && executor_.times_; }
  void note(TimedAction timed) {
    timed.step = step_.steps_done + 1;
    executor_.times_->push_back(timed);
  }

  void wait_for(Message& message) {
    if (!is_recorded()) return wait_for_work(message);
    const double begin = steady_seconds();
    wait_for_work(message);
    idle_until_ = steady_seconds();
    note({.action = message.action, .waits = true, .begin = begin, .end = idle_until_});
  }

  void wait_for_work(Message& message) const {
    try {
      for (comm::Work& each : message.work) each.wait();
    } catch (const CommError& error) {
      throw CommError(fmt::format("waits for {}: {}", other_end(message.action), error.what()));
    }
    message.work.clear();
  }

  void carry_out(const Action& action, size_t position) {
    const Key key{action.stage, action.micro_batch};
    switch (action.kind) {
      case ActionKind::forward:
        return forward(action, position);
      case ActionKind::backward:
        return backward(action);
      case ActionKind::send_forward:
        return send(action, action.stage, Way::forward, std::exchange(outputs_[key], {}));
      case ActionKind::send_backward:
        return send(action, action.stage - 1, Way::backward,
                    std::exchange(input_gradients_[key], {}));
      case ActionKind::receive_forward:
        activations_[key] = receive(action, action.stage - 1, Way::forward);
        return;
      case ActionKind::receive_backward:
        gradients_[key] = receive(action, action.stage, Way::backward);
        return;
      case ActionKind::backward_input:
        return backward_input(action);
      case ActionKind::backward_weight:
        return backward_weight(action);
    }
  }

  // Sends between stages `border` and border + 1. Keeps the last messages of each channel, as many
  // as the schedule has buffers, arrived or not: so what a rank holds does not depend on when its
  // peers receive.
  void send(const Action& action, int border, Way way, StageState tensors) {
    std::deque<Message>& under_way = sends_[{border, way}];
    if (std::ssize(under_way) == schedule_.buffers) {
      wait_for(under_way.front());
      under_way.pop_front();
    }
    Message& message = under_way.emplace_back();
    message.action = action;
    const comm::Group& channel = context_.stage_channel(border, way);
    for (at::Tensor& tensor : tensors) {
      tensor = tensor.contiguous();
      if (tensor.numel() == 0) continue;
      message.work.push_back(
          comm::send_async(tensor, 1 - channel.rank(), channel, comm::Reason::stage));
    }
    message.tensors = std::move(tensors);
  }

  Message receive(const Action& action, int border, Way way) {
    Message message;
    message.action = action;
    if (!is_run(action)) return message;
    const comm::Group& channel = context_.stage_channel(border, way);
    StageState like = model_.state_like(border, batch_of(action));
    if (way == Way::backward) like = with_gradients(like);
    for (const at::Tensor& tensor : like) {
      message.tensors.push_back(at::empty_like(tensor, tensor.options().device(context_.device())));
      const at::Tensor& made = message.tensors.back();
      if (made.numel() == 0) continue;
      message.work.push_back(
          comm::receive_async(made, 1 - channel.rank(), channel, comm::Reason::stage));
    }
    return message;
  }

  StageState take(std::map<Key, Message>& messages, const Key& key) {
    const auto found = messages.find(key);
    COLOSSAL_CHECK(found != messages.end(), "stage {} has nothing for micro-batch {}", key.first,
                   key.second);
    Message message = std::move(found->second);
    messages.erase(found);
    wait_for(message);
    return std::move(message.tensors);
  }

  StageState inputs_of(const Action& action) {
    if (action.stage == 0) return {};
    if (!is_here(action.stage - 1)) return take(activations_, {action.stage, action.micro_batch});
    return std::exchange(outputs_[{action.stage - 1, action.micro_batch}], {});
  }

  // Returns whether the rank's next computation is the backward pass of this stage and micro-batch;
  // then the two are one visit of the stage.
  bool backward_follows(size_t position) const {
    const Action& action = actions_[position];
    for (size_t next = position + 1; next < actions_.size(); ++next) {
      if (!parallel::pipeline::is_computation(actions_[next].kind)) continue;
      return actions_[next] == Action{ActionKind::backward, action.stage, action.micro_batch};
    }
    return false;
  }

  StageResult run_stage(const Action& action, const StageState& inputs) {
    const data::Batch& batch = batch_of(action);
    const nn::SequencePart part = parallel::sequence_part(context_);
    nn::StepContext step;
    step.tokens().batch = batch.rows();
    step.sample_ids = batch.sample_ids;
    step.seed = step_.seed;
    step.step = step_.steps_done;
    step.training = training_;
    if (model_.context) step = model_.context(batch, step, part);
    if (training_) step.services.block_runner = &executor_.activations_;
    nn::RouterRecords records;
    step.services.router_records = &records;
    std::optional<memory::FetchOnDispatch> fetching;
    if (!executor_.options_.uses_handles && chunks_.weights_are_transient())
      fetching.emplace(chunks_);
    StageResult result = model_.run(action.stage, inputs, data::local_batch(batch, part), step);
    if (training_) count(records);
    return result;
  }

  void count(const nn::RouterRecords& records) {
    if (control_.routers.empty()) return;
    for (const nn::RouterRecord& record : records.layers) {
      const auto experts = std::ssize(record.counts);
      for (int64_t expert = 0; expert < experts; ++expert) {
        control_.routers.at(record.layer * experts + expert) +=
            static_cast<double>(record.counts[expert]);
      }
      router_sum(control_, kDropped) += static_cast<double>(record.dropped);
      router_sum(control_, kCopies) += static_cast<double>(record.copies);
    }
  }

  void forward(const Action& action, size_t position) {
    StageState inputs = inputs_of(action);
    if (!training_) return evaluate(action, inputs);
    const bool joined = backward_follows(position);
    joined ? chunks_.begin_micro_batch(action.stage) : chunks_.begin_forward(action.stage);
    InFlight& flight = in_flight_[{action.stage, action.micro_batch}];
    for (at::Tensor& input : inputs) {
      input = input.detach();
      if (carries_gradient(input)) input.set_requires_grad(true);
    }
    StageResult result = [&] {
      const nn::LayerScope scope("model");
      const memory::Activations::Scope saving(executor_.activations_, first_block(action.stage));
      return run_stage(action, inputs);
    }();
    flight.inputs = std::move(inputs);
    flight.loss = std::move(result.loss);
    if (!is_last(action.stage)) pass_on(action, result.state, flight);
    if (!joined) chunks_.end_forward();
  }

  // Stores the outputs for the next stage. For the backward pass only their edges in the graph are
  // kept.
  void pass_on(const Action& action, const StageState& state, InFlight& flight) {
    StageState& outputs = outputs_[{action.stage, action.micro_batch}];
    for (const at::Tensor& tensor : state) {
      if (carries_gradient(tensor)) {
        flight.roots.push_back(tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor)
                                                      : torch::autograd::Edge());
      }
      outputs.push_back(tensor.detach());
    }
  }

  void evaluate(const Action& action, const StageState& inputs) {
    chunks_.begin_evaluation(action.stage);  // also without sequences: other replicas may have some
    StageResult result;
    if (is_run(action)) result = run_stage(action, inputs);
    chunks_.end_evaluation();
    outputs_[{action.stage, action.micro_batch}] = std::move(result.state);
    if (result.loss.sum.defined() && has_sequences(action)) count(result.loss);
  }

  void count(const LossSum& loss) {
    control_.token_count += loss.count / loss.copies;
    control_.loss_sum += ops::PendingSum(loss.sum) / loss.copies;
    if (loss.router_term.defined() && !control_.routers.empty()) {
      router_sum(control_, kRouterTerm) += loss.router_term;
    }
    for (const auto& [name, metric] : loss.metrics) {
      const std::vector<std::string>& names = executor_.options_.metrics;
      const auto place = std::ranges::find(names, name) - names.begin();
      COLOSSAL_CHECK(place < std::ssize(names), "the engine was not told of a metric \"{}\"", name);
      control_.metrics[2 * place] += metric.sum;
      control_.metrics[2 * place + 1] += metric.count;
      if (!is_maximum(name)) continue;
      const auto maximum = std::count_if(names.begin(), names.begin() + place, is_maximum);
      const comm::Group& ranks = context_.world_group();
      control_.maxima.at(maximum * ranks.size() + ranks.rank()).raise_to(metric.sum);
    }
  }

  void backward(const Action& action) {
    chunks_.begin_backward(is_last_of_step(action.stage), action.stage);
    backpropagate(action);
    chunks_.end_backward();
  }

  void backward_input(const Action& action) {
    PutOff& later = put_off_[{action.stage, action.micro_batch}];
    const ops::DeferredGradients::Scope scope(later.computations);
    chunks_.begin_backward_input(action.stage, later.held);
    backpropagate(action);
    chunks_.end_backward_input();
  }

  void backward_weight(const Action& action) {
    const Key key{action.stage, action.micro_batch};
    PutOff now = std::move(put_off_.at(key));
    put_off_.erase(key);
    chunks_.begin_backward_weight(is_last_of_step(action.stage), action.stage);
    {
      const nn::LayerScope scope("backward.weights");
      chunks_.take(std::move(now.held));
      now.computations.run();
    }
    chunks_.end_backward();
  }

  // Counts the passes that complete the gradients of a stage's weights; returns whether this is the
  // last one of the step.
  bool is_last_of_step(int stage) {
    return ++backward_passes_[stage] == schedule_.num_micro_batches;
  }

  // Computes the gradients of the stage's inputs from the gradients of its outputs.
  void backpropagate(const Action& action) {
    const Key key{action.stage, action.micro_batch};
    InFlight flight = std::move(in_flight_.at(key));
    in_flight_.erase(key);
    {
      const nn::LayerScope scope("backward");
      if (is_last(action.stage)) {
        const at::Tensor& sum = flight.loss.sum;
        COLOSSAL_CHECK(sum.requires_grad(), "the loss depends on no weight that is trained");
        ops::run_backward({torch::autograd::impl::gradient_edge(sum)},
                          {at::full({}, upstream_, sum.options())}, /*keep_graph=*/false);
      } else {
        ops::run_backward(flight.roots, gradients_of_outputs(action), /*keep_graph=*/false);
      }
    }
    if (is_last(action.stage)) count(flight.loss);
    StageState& passed_back = input_gradients_[key];
    for (at::Tensor& input : flight.inputs) {
      if (!carries_gradient(input)) continue;
      passed_back.push_back(input.grad().defined() ? input.grad() : at::zeros_like(input));
      input.mutable_grad().reset();
    }
  }

  StageState gradients_of_outputs(const Action& action) {
    if (!is_here(action.stage + 1)) return take(gradients_, {action.stage, action.micro_batch});
    return std::exchange(input_gradients_[{action.stage + 1, action.micro_batch}], {});
  }

  int64_t first_block(int stage) const {
    return context_.strategy().blocks_of_stage(stage, 0).begin;
  }

  PipelineExecutor& executor_;
  const StagedModel& model_;
  const ParallelContext& context_;
  memory::ChunkEngine& chunks_;
  std::span<const data::Batch> micro_batches_;
  const Step step_;
  const double upstream_;
  const bool training_;
  ControlMessage& control_;
  const parallel::pipeline::Schedule& schedule_;
  const std::vector<Action>& actions_;

  std::map<Key, InFlight> in_flight_;
  std::map<Key, PutOff> put_off_;
  std::map<Key, StageState> outputs_;          // of a stage, until the next stage takes them
  std::map<Key, StageState> input_gradients_;  // of a stage, until the previous stage takes them
  std::map<Key, Message> activations_;         // inputs of a stage, from another rank
  std::map<Key, Message> gradients_;           // gradients of a stage's outputs, from another rank
  std::map<std::pair<int, Way>, std::deque<Message>> sends_;  // by border and direction
  std::map<int, int> backward_passes_;                        // by stage
  double idle_until_ = 0;  // if times are recorded: when the current action began to compute
};

PipelineExecutor::PipelineExecutor(const ParallelContext& context, const StagedModel& model,
                                   memory::ChunkEngine& chunks, memory::Activations& activations,
                                   const Options& options)
    : context_(context),
      model_(model),
      chunks_(chunks),
      activations_(activations),
      options_(options) {}

const PipelineExecutor::Schedule& PipelineExecutor::training_schedule(size_t num_micro_batches) {
  const auto found = training_.find(num_micro_batches);
  if (found != training_.end()) return found->second;
  const Strategy& strategy = context_.strategy();
  Schedule schedule = colossal::training_schedule(strategy, options_.stage_costs,
                                                  static_cast<int64_t>(num_micro_batches));
  for (int stage = 0; stage < strategy.num_stages(); ++stage) {
    COLOSSAL_CHECK(schedule.rank_of_stage[stage] == strategy.stage_rank(stage),
                   "stage {} is on rank {}, its schedule has it on {}", stage,
                   strategy.stage_rank(stage), schedule.rank_of_stage[stage]);
  }
  return training_.emplace(num_micro_batches, std::move(schedule)).first->second;
}

const PipelineExecutor::Schedule& PipelineExecutor::evaluation_schedule(size_t num_micro_batches) {
  const auto found = evaluation_.find(num_micro_batches);
  if (found != evaluation_.end()) return found->second;
  const Strategy& strategy = context_.strategy();
  std::vector<int> ranks;
  for (int stage = 0; stage < strategy.num_stages(); ++stage) {
    ranks.push_back(strategy.stage_rank(stage));
  }
  return evaluation_
      .emplace(num_micro_batches, parallel::pipeline::forward_only(
                                      strategy.pp, ranks, static_cast<int>(num_micro_batches)))
      .first->second;
}

void PipelineExecutor::train(std::span<const data::Batch> micro_batches, const Step& step,
                             double upstream, ControlMessage& control) {
  Run(*this, model_, micro_batches, step, upstream, /*training=*/true, control).run();
}

void PipelineExecutor::evaluate(const StagedModel& model,
                                std::span<const data::Batch> micro_batches, const Step& step,
                                ControlMessage& control) {
  const at::NoGradGuard no_grad;
  Run(*this, model, micro_batches, step, /*upstream=*/0, /*training=*/false, control).run();
}

}  // namespace colossal
