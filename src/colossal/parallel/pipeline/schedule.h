// A pipeline schedule as data: for each rank, its actions in the order in which it carries them
// out.
//
// A model is cut into stages, numbered in model order over all ranks; a rank holds one or several
// of them (its chunks). Each micro-batch passes every stage forward, then every stage backward. A
// stage's backward pass is whole (backward) or split: the gradient of the stage's input, for which
// another rank waits, comes first (backward_input), and the gradients of the weights come when
// there is time (backward_weight).
//
// validator.h checks a schedule, simulator.h times it, drawing.h draws it, schedule_text.h writes
// and reads it, and schedules.h lists the built-in schedules. None of them needs a device.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace colossal::parallel::pipeline {

enum class ActionKind {
  forward,
  backward_input,
  backward_weight,
  backward,          // backward_input and backward_weight at once
  send_forward,      // `stage` has computed these activations
  receive_forward,   // `stage` will use these activations
  send_backward,     // `stage` has computed this gradient of its input
  receive_backward,  // `stage` will use this gradient of its output
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int stage = 0;
  int micro_batch = 0;
  // This computation and the next one of its rank may run at the same time (DualPipeV's pairs of a
  // forward and a backward). Running one after the other is correct, too.
  bool overlaps_next = false;

  bool operator==(const Action&) const = default;
};

struct Schedule {
  std::string name;
  int num_micro_batches = 0;
  // Bounds the messages under way on a channel (one boundary between stages, in one direction). The
  // sender may send at most `buffers` messages whose receives are not posted yet; then it waits.
  // The receiver may have posted at most `buffers` receives whose messages it has not used.
  int buffers = 0;
  std::vector<int> rank_of_stage;            // [stages]
  std::vector<std::vector<Action>> actions;  // [ranks], each in the order of execution

  int num_ranks() const { return static_cast<int>(actions.size()); }
  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }

  bool operator==(const Schedule&) const = default;
};

// Return the rank that holds each stage. Looping: stage s is on rank s mod num_ranks. V: two chunks
// per rank, down the ranks and up again, so rank 0 has the first stage and the last.
std::vector<int> looping_placement(int num_ranks, int chunks);
std::vector<int> v_placement(int num_ranks);

// Returns the index of a stage among the stages of its rank, in model order.
int chunk_of_stage(const Schedule& schedule, int stage);

bool is_computation(ActionKind kind);
bool is_send(ActionKind kind);
bool is_receive(ActionKind kind);
bool is_forward(ActionKind kind);          // forward, send_forward, receive_forward
bool gives_gradient(ActionKind kind);      // of the stage's input: backward_input, backward
bool completes_backward(ActionKind kind);  // completes the backward pass: backward_weight, backward

// kind_name(): F, I, W, B, SF, RF, SB or RB. action_name(): kind, stage and micro-batch, "F3.0".
std::string kind_name(ActionKind kind);
std::string action_name(const Action& action);

// "input gradient of micro-batch 0 in stage 3", for error messages and titles.
std::string in_words(const Action& action);

// Return the message from another rank that a computation uses, and the message to another rank
// that carries its result. nullopt for a backward_weight, or if the neighbouring stage is on the
// same rank or does not exist.
std::optional<Action> receive_before(const Schedule& schedule, const Action& computation);
std::optional<Action> send_after(const Schedule& schedule, const Action& computation);

// The other end of a message.
Action receive_of(const Action& send);
Action send_of(const Action& receive);

// Channels are numbered from 0: the forward channels by boundary, then the backward channels by
// boundary.
int num_channels(const Schedule& schedule);
int channel_of(const Schedule& schedule, const Action& message);

}  // namespace colossal::parallel::pipeline
