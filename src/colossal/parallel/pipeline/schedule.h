// A pipeline schedule as data: for each rank the actions that it carries out, in their order.
//
// A model is cut into stages, numbered in model order over all ranks; a rank holds one of them or
// several (its chunks). Each micro-batch passes every stage forward, then every stage backward. A
// backward pass is whole (Backward), or it is split so that the gradient of the stage's input, for
// which another rank waits, comes first (BackwardInput) and those of the weights when there is time
// (BackwardWeight).
//
// validator.h proves a schedule, simulator.h times it, drawing.h draws it, schedule_text.h writes
// and reads it, and schedules.h lists those that are built in. None of them needs a device.
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
  send_forward,      // `stage` has computed the activations
  receive_forward,   // `stage` will compute with them
  send_backward,     // `stage` has computed the gradient of its input
  receive_backward,  // `stage` will compute with the gradient of its output
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int stage = 0;
  int micro_batch = 0;
  // May run at the same time as the next computation of its rank, on a device that can (DualPipeV's
  // pairs of a forward and a backward). One after the other is right as well.
  bool overlaps_next = false;

  bool operator==(const Action&) const = default;
};

struct Schedule {
  std::string name;
  int num_micro_batches = 0;
  // How many messages of a channel may be under way. That many may have been sent before the
  // receiver asks for the first of them (the sender waits with the next), and that many may have
  // been asked for before the first is used. A channel is one boundary between stages in one
  // direction.
  int buffers = 0;
  std::vector<int> rank_of_stage;            // [stages]
  std::vector<std::vector<Action>> actions;  // [ranks], each in the order of execution

  int num_ranks() const { return static_cast<int>(actions.size()); }
  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }

  bool operator==(const Schedule&) const = default;
};

// Which rank holds each stage. Looping: stage s lies at rank s mod num_ranks; with one chunk the
// stages lie along the ranks. V: two chunks, down the ranks and up again, so that the first rank
// has the first stage and the last one.
std::vector<int> looping_placement(int num_ranks, int chunks);
std::vector<int> v_placement(int num_ranks);

// The place of a stage among those of its rank, from 0, in model order.
int chunk_of_stage(const Schedule& schedule, int stage);

bool is_computation(ActionKind kind);
bool is_send(ActionKind kind);
bool is_receive(ActionKind kind);
bool is_forward(ActionKind kind);        // forward, and the two messages forward
bool gives_gradient(ActionKind kind);    // of the stage's input: backward_input, backward
bool frees_activation(ActionKind kind);  // of the stage, for good: backward_weight, backward

// "F3.0": the kind's letters (F, I, W, B; SF, RF, SB, RB), stage and micro-batch.
std::string kind_name(ActionKind kind);
std::string action_name(const Action& action);

// "input gradient of micro-batch 0 in stage 3", for messages.
std::string in_words(const Action& action);

// Returns the message that a computation receives from another rank, and the one that it sends to
// another; nothing if the neighbouring stage is on the same rank or does not exist.
std::optional<Action> receive_before(const Schedule& schedule, const Action& computation);
std::optional<Action> send_after(const Schedule& schedule, const Action& computation);

// The other end of a message.
Action receive_of(const Action& send);
Action send_of(const Action& receive);

// Channels are numbered from 0: those forward, then those backward.
int num_channels(const Schedule& schedule);
int channel_of(const Schedule& schedule, const Action& message);

}  // namespace colossal::parallel::pipeline
