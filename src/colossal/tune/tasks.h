// The tuning methods as tasks of the training loop; one source file per method.
#pragma once

#include <functional>
#include <memory>

#include "colossal/tune/sample_task.h"

namespace colossal::tune {

using Reading = std::function<void()>;  // called regularly while samples are read

// Supervised fine-tuning: cross-entropy of the trained tokens. With loss_type "dft", the loss of
// each token is multiplied by the token's probability (Wu et al. 2025).
std::unique_ptr<TrainingTask> make_sft(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// DPO and variants: preference pairs, with a reference.
std::unique_ptr<TrainingTask> make_dpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Preference pairs, without a reference: make_cpo() for CPO and SimPO, make_orpo() for ORPO.
std::unique_ptr<TrainingTask> make_cpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_orpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);

// Trains a reward model on preference pairs.
std::unique_ptr<TrainingTask> make_reward(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning, const Reading& reading);

// KTO: single completions, desirable or undesirable, with a reference.
std::unique_ptr<TrainingTask> make_kto(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// On-policy methods (GRPO and variants, RLOO, PPO): rewards of completions sampled from the model.
std::unique_ptr<TrainingTask> make_grpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_rloo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_ppo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Distillation: trains on a teacher's next-token distributions, on given completions or on
// completions sampled from the student (GKD).
std::unique_ptr<TrainingTask> make_distill(const Job& job, const ParallelContext& context,
                                           const Tuning& tuning, const Reading& reading);

// Trains a draft head for speculative decoding (EAGLE): from the model's hidden states and the next
// token, the head learns the model's distribution over the token after the next one.
std::unique_ptr<TrainingTask> make_draft_head(const Job& job, const ParallelContext& context,
                                              const Tuning& tuning, const Reading& reading);

// Returns a function that makes the task of tuning.method.
MakeTask make_task(const Tuning& tuning);

}  // namespace colossal::tune
