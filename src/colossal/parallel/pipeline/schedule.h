// A pipeline schedule as data: the list of actions that each rank of a pipeline carries out in a
// step, in order. "Rank" means the index along the axis pp.
//
// A model is cut into stages, numbered in model order over all ranks. A rank holds one or several
// stages. Here, "chunk" means one of the stages of a rank, as in Megatron-LM, and not a buffer of
// weights (memory/chunk.h). Each micro-batch passes all stages forward, then all stages backward.
// The backward pass of a stage is one computation (backward) or is split into two: the gradient of
// the stage's input (backward_input), for which the previous stage waits, and later the gradients
// of the stage's weights (backward_weight).
//
// schedules.h makes the built-in schedules, schedule_text.h reads and writes schedules, validator.h
// checks them, simulator.h computes their times, and drawing.h draws them. None of these functions
// needs a device.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace colossal::parallel::pipeline {

// What a rank does for one micro-batch in one of its stages.
enum class ActionKind {
  // Computations.
  forward,          // the forward pass of the stage
  backward_input,   // the gradient of the stage's input
  backward_weight,  // the gradients of the stage's weights
  backward,         // backward_input and backward_weight in one
  // Messages between ranks. A receive is posted: it does not wait for the message.
  send_forward,      // sends the output of the stage to the next stage
  receive_forward,   // receives the input of the stage from the previous stage
  send_backward,     // sends the gradient of the stage's input to the previous stage
  receive_backward,  // receives the gradient of the stage's output from the next stage
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int stage = 0;
  int micro_batch = 0;
  // Whether this computation and the next one of its rank may run at the same time (DualPipeV's
  // pairs of a forward and a backward). They may also run one after the other.
  bool overlaps_next = false;

  bool operator==(const Action&) const = default;
};

struct Schedule {
  std::string name;
  int num_micro_batches = 0;
  // Limits the messages on each channel; a channel carries the messages between two neighbouring
  // stages in one direction. The sender waits if it has sent `buffers` messages whose receives are
  // not posted yet. The receiver has at most `buffers` posted receives whose messages are not used
  // yet.
  int buffers = 0;
  std::vector<int> rank_of_stage;            // [stages]
  std::vector<std::vector<Action>> actions;  // [ranks]: the actions of each rank, in order

  int num_ranks() const { return static_cast<int>(actions.size()); }
  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }

  bool operator==(const Schedule&) const = default;
};

// Returns Schedule::rank_of_stage for a looping placement: stage s is on rank s mod num_ranks.
// chunks: number of stages per rank.
std::vector<int> looping_placement(int num_ranks, int chunks);
// Returns Schedule::rank_of_stage for a V placement with two chunks per rank: stages 0 to num_ranks
// - 1 are on ranks 0, 1, .., and the other stages are on the ranks in reverse order. So rank 0 has
// the first and the last stage.
std::vector<int> v_placement(int num_ranks);

// Returns the index of a stage among the stages of its rank, in model order.
int chunk_of_stage(const Schedule& schedule, int stage);

bool is_computation(ActionKind kind);
bool is_send(ActionKind kind);
bool is_receive(ActionKind kind);
bool is_forward(ActionKind kind);  // true: forward, send_forward, receive_forward
// Whether it computes the gradient of the stage's input: backward_input, backward.
bool computes_input_gradient(ActionKind kind);
// Whether it ends the backward pass of a stage: backward_weight, backward.
bool completes_backward(ActionKind kind);

// Returns the letters of a kind, in the order of ActionKind: F, I, W, B, SF, RF, SB, RB.
std::string kind_name(ActionKind kind);
// Returns kind, stage and micro-batch: "F3.0" for the forward of micro-batch 0 in stage 3.
std::string action_name(const Action& action);

// Returns a description for error messages and titles: "input gradient of micro-batch 0 in stage
// 3".
std::string in_words(const Action& action);

// Returns the receive whose message a computation uses. Returns nullopt if it uses no message: if
// it uses the result of a stage on the same rank; if it uses no other stage's result (the forward
// of the first stage, the backward of the last); or if it is a backward_weight.
std::optional<Action> receive_before(const Schedule& schedule, const Action& computation);
// Returns the send that carries the result of a computation. nullopt if the stage that uses the
// result is on the same rank, if there is no such stage, or for backward_weight.
std::optional<Action> send_after(const Schedule& schedule, const Action& computation);

// Returns the receive of the message that `send` sends.
Action receive_of(const Action& send);
// Returns the send of the message that `receive` receives.
Action send_of(const Action& receive);

// Returns the number of channels of a schedule: 2 * (stages - 1).
int num_channels(const Schedule& schedule);
// Returns the channel of a send or receive. Channel s carries activations from stage s to stage s +
// 1; channel stages - 1 + s carries gradients from stage s + 1 to stage s.
int channel_of(const Schedule& schedule, const Action& message);

}  // namespace colossal::parallel::pipeline
