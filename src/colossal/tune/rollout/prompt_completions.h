// Completes prompts with the model in training, to show what it writes (train.sample_prompts).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/engine/engine.h"
#include "colossal/job/job.h"
#include "colossal/models/model.h"
#include "colossal/training/training_task.h"

namespace colossal::tune {

// Returns what the model of the task writes after each prompt, without special tokens: at most
// train.sample_tokens tokens, each the most probable one. All ranks pass the same prompts and get
// all completions. Collective. Law: that of roll_out_on_all_ranks() (rollout.h).
std::vector<std::string> complete_prompts(const Job& job, models::Model& model, Engine& engine,
                                          const TrainingTask& task,
                                          const std::vector<std::vector<int32_t>>& prompts);

}  // namespace colossal::tune
