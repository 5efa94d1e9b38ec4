// Trains a job on ranks of this process, as the command line does.
#pragma once

#include "colossal/job/job.h"
#include "colossal/training/trainer.h"

namespace colossal::test {

void train_on_ranks(const Job& job, const MakeTask& make_task = make_pretraining,
                    const TrainingHooks& hooks = {});

}  // namespace colossal::test
