#include "colossal/parallel/pipeline/forward_only.h"

#include "colossal/parallel/pipeline/communication.h"

namespace colossal::parallel::pipeline {

// In waves: stage s computes micro-batch m in wave s + m, so its input comes from the previous
// wave. Within a wave a rank computes its last stage first, which is nearest to the output.
Schedule forward_only(int num_ranks, const std::vector<int>& rank_of_stage, int num_micro_batches) {
  constexpr int kBuffers = 2;
  Schedule schedule{.name = "forward only",
                    .num_micro_batches = num_micro_batches,
                    .rank_of_stage = rank_of_stage,
                    .actions = std::vector<std::vector<Action>>(num_ranks)};
  const int num_stages = schedule.num_stages();
  for (int wave = 0; wave < num_stages + num_micro_batches - 1; ++wave) {
    for (int stage = num_stages - 1; stage >= 0; --stage) {
      const int micro_batch = wave - stage;
      if (micro_batch < 0 || micro_batch >= num_micro_batches) continue;
      schedule.actions[rank_of_stage[stage]].push_back({ActionKind::forward, stage, micro_batch});
    }
  }
  return with_communication(std::move(schedule), kBuffers);
}

}  // namespace colossal::parallel::pipeline
