// The tuning methods (TuningMethod). Each function is defined in a source file of its own. The
// losses that are named here are in losses.h.
#pragma once

#include "colossal/tune/tuning_method.h"

namespace colossal::tune {

// Supervised fine-tuning: cross-entropy of the tokens that are trained on. With loss_type "dft",
// the loss of each token is multiplied by the token's probability (Wu et al. 2025).
const TuningMethod& sft();

// DPO and variants: trains on preference pairs, with a reference model. Loss: dpo_loss().
const TuningMethod& dpo();

// Methods that train on preference pairs without a reference model. cpo() and simpo() have the loss
// cpo_loss(); the loss of orpo() uses log_odds().
const TuningMethod& cpo();
const TuningMethod& simpo();
const TuningMethod& orpo();

// KTO: trains on single completions, desirable or undesirable, with a reference model. Loss:
// kto_loss(), with the loss types "kto" and "apo_zero_unpaired"; the latter takes 0 for the KL
// estimate.
const TuningMethod& kto();

// Trains a reward model on preference pairs. Loss: reward_loss().
const TuningMethod& reward();

// Trains a model that gives texts or images labels (labels.h). Loss: label_loss()
// (engine/score_loss.h).
const TuningMethod& classify();

// On-policy methods (GRPO and variants, RLOO, PPO): train on rewards of completions that are
// sampled from the model in training (online_task.h).
const TuningMethod& grpo();
const TuningMethod& rloo();
const TuningMethod& ppo();

// Distillation: trains the model to predict a teacher's next-token distributions, on completions of
// data.train or on completions sampled from the model in training (GKD).
const TuningMethod& distill();

// Trains a draft head for speculative decoding (EAGLE): from the model's hidden states and the next
// token, the head learns the model's distribution over the token after the next one.
const TuningMethod& draft_head();

}  // namespace colossal::tune
