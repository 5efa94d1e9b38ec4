// The methods of fine-tuning as tasks of the training loop, one file each.
#pragma once

#include <functional>
#include <memory>

#include "colossal/tune/sample_task.h"

namespace colossal::tune {

using Reading = std::function<void()>;  // called while samples are read

// Supervised fine-tuning: the cross-entropy of the learned tokens; with loss_type "dft" each
// token's is multiplied by the token's probability (Wu et al. 2025).
std::unique_ptr<TrainingTask> make_sft(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// DPO and its variants: pairs of completions, compared with a reference.
std::unique_ptr<TrainingTask> make_dpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// CPO, SimPO and ORPO: pairs of completions, without a reference.
std::unique_ptr<TrainingTask> make_cpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_orpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);

// A reward model, which scores texts; learned from pairs of which one text is better.
std::unique_ptr<TrainingTask> make_reward(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning, const Reading& reading);

// KTO: single completions, desirable or not, compared with a reference.
std::unique_ptr<TrainingTask> make_kto(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// GRPO and its variants, RLOO and PPO: rewards of completions that the model samples itself.
std::unique_ptr<TrainingTask> make_grpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_rloo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_ppo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Distillation: a larger model's distribution over each next token, on given completions or on
// those that the model samples itself.
std::unique_ptr<TrainingTask> make_distill(const Job& job, const ParallelContext& context,
                                           const Tuning& tuning, const Reading& reading);

// A head that guesses for a model: it learns the model's distribution over the token after the next
// one, from the model's states (EAGLE).
std::unique_ptr<TrainingTask> make_draft_head(const Job& job, const ParallelContext& context,
                                              const Tuning& tuning, const Reading& reading);

// Returns what makes a method's task.
MakeTask make_task(const Tuning& tuning);

}  // namespace colossal::tune
