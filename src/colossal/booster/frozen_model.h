// A model that is not trained, at the layout of the one that is: the reference of an alignment
// method, a reward model.
#pragma once

#include <memory>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/booster/pipeline_executor.h"
#include "colossal/booster/staged_model.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

class FrozenModel {
 public:
  // The job's model as a run of it begins: with the weights of its folder, or those of the seed.
  // They have no gradients and no optimizer state; ZeRO stage 3 and the tiers hold for them too.
  // head: called for each micro-batch on the ranks of the last stage. Collective.
  FrozenModel(const Job& job, const ParallelContext& context, HeadLoss head);
  ~FrozenModel();

  // Runs the micro-batches forward, in order; the head gets each. As many on all ranks. Collective.
  void run(const std::vector<data::Batch>& micro_batches);

 private:
  FrozenModel(const ParallelContext& context, const Job& job, HeadLoss head);

  const ParallelContext& context_;
  std::unique_ptr<nn::Builder> build_;
  std::unique_ptr<models::LanguageModel> model_;
  memory::ChunkEngine weights_;
  memory::Activations activations_;
  StagedModel stages_;
  PipelineExecutor executor_;
};

}  // namespace colossal
