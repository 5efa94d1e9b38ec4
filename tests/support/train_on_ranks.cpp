#include "tests/support/train_on_ranks.h"

#include "colossal/mesh/parallel_context.h"
#include "colossal/plan/decided_run.h"
#include "tests/support/run_ranks.h"

namespace colossal::test {

void train_on_ranks(const Job& job, const MakeTask& make_task, const TrainingHooks& hooks) {
  run_ranks(job.strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, job.strategy);
    plan::DecidedRun decided = plan::decide(job, context);
    train(decided.job, context, decided.folders, hooks, make_task);
  });
}

}  // namespace colossal::test
