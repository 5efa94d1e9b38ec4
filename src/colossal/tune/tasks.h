// The methods of fine-tuning as tasks of the training loop, one file each.
#pragma once

#include <functional>
#include <memory>

#include "colossal/tune/sample_task.h"

namespace colossal::tune {

using Reading = std::function<void()>;  // called while samples are read

// Supervised fine-tuning: the cross-entropy of what is learned, or with loss_type "dft" each
// token's times its own probability (Wu et al. 2025).
std::unique_ptr<TrainingTask> make_sft(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Pairs of completions against a reference: DPO and its kin.
std::unique_ptr<TrainingTask> make_dpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Pairs without a reference: CPO, SimPO and ORPO.
std::unique_ptr<TrainingTask> make_cpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_orpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);

// A reward model: a number for each text, by pairs of which one is better.
std::unique_ptr<TrainingTask> make_reward(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning, const Reading& reading);

// Completions that are desirable or not, against a reference.
std::unique_ptr<TrainingTask> make_kto(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// Rewards of the model's own completions: GRPO and its kin, RLOO, and PPO.
std::unique_ptr<TrainingTask> make_grpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_rloo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading);
std::unique_ptr<TrainingTask> make_ppo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading);

// The task of a method.
MakeTask make_task(const Tuning& tuning);

}  // namespace colossal::tune
