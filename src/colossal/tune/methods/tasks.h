// Makes the training tasks (TrainingTask) of the tuning methods. Each function make_METHOD() is
// defined in a source file of its own.
#pragma once

#include <functional>
#include <memory>

#include "colossal/tune/methods/sample_task.h"

namespace colossal::tune {

// A function, not null, that is called regularly while samples are read. It may throw to end the
// run.
using Reading = std::function<void()>;

// In all functions, `job` and `context` must outlive the task; `tuning` is copied, and `reading` is
// called only during the call. The functions are collective and throw as the constructor of
// SampleTask. The losses that are named below are in losses.h.
//
// Supervised fine-tuning: cross-entropy of the tokens that are trained on. With loss_type "dft",
// the loss of each token is multiplied by the token's probability (Wu et al. 2025).
std::unique_ptr<TrainingTask> make_sft(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// DPO and variants: trains on preference pairs, with a reference model. Loss: dpo_loss().
std::unique_ptr<TrainingTask> make_dpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Methods that train on preference pairs without a reference model. make_cpo(): CPO and SimPO, with
// the loss cpo_loss(). make_orpo(): ORPO, whose loss uses log_odds().
std::unique_ptr<TrainingTask> make_cpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_orpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);

// Trains a reward model on preference pairs. Loss: reward_loss().
std::unique_ptr<TrainingTask> make_reward(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning, const Reading& reading);

// Trains a model that gives texts labels (labels.h). Loss: label_loss() (engine/score_loss.h).
std::unique_ptr<TrainingTask> make_classify(const Job& job, const ParallelContext& context,
                                            const Tuning& tuning, const Reading& reading);

// The same for a model that reads images.
std::unique_ptr<TrainingTask> make_classify_images(const Job& job, const ParallelContext& context);

// KTO: trains on single completions, desirable or undesirable, with a reference model. Loss:
// kto_loss(), with the loss types "kto" and "apo_zero_unpaired"; the latter takes 0 for the KL
// estimate.
std::unique_ptr<TrainingTask> make_kto(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// On-policy methods (GRPO and variants, RLOO, PPO): train on rewards of completions that are
// sampled from the model in training (online_task.h).
std::unique_ptr<TrainingTask> make_grpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_rloo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_ppo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Distillation: trains the model to predict a teacher's next-token distributions, on completions of
// data.train or on completions sampled from the model in training (GKD).
std::unique_ptr<TrainingTask> make_distill(const Job& job, const ParallelContext& context,
                                           const Tuning& tuning, const Reading& reading);

// Trains a draft head for speculative decoding (EAGLE): from the model's hidden states and the next
// token, the head learns the model's distribution over the token after the next one.
std::unique_ptr<TrainingTask> make_draft_head(const Job& job, const ParallelContext& context,
                                              const Tuning& tuning, const Reading& reading);

// Returns a function for the trainer that makes the task of tuning.method with one of the functions
// above. The returned function has a copy of `tuning`.
MakeTask make_task(const Tuning& tuning);

}  // namespace colossal::tune
