// A model that is not trained, at the layout of the one that is: the reference of an alignment
// method, a reward model, a teacher.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/booster/pipeline_executor.h"
#include "colossal/booster/staged_model.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

// Returns a run's job with the model of another folder in place of its own, for a FrozenModel
// beside it. The folder may be an adapter's: then it is the model that this names, with it. Its
// tokenizer is the folder's, or the run's if the folder has none. Throws
// ConfigError, which begins with `setting`, for a model that does not fit the run's layout or the
// length of its rows, or has no weights.
Job job_of_folder(const Job& run, const std::string& folder, const std::string& setting);

class FrozenModel {
 public:
  // The job's model as a run of it begins: with the weights of its folder, or those of the seed.
  // They have no gradients and no optimizer state; ZeRO stage 3 and the tiers hold for them too.
  // context: of the run. job: the run's, or job_of_folder(). head: called for each micro-batch on
  // the ranks of the last stage. Collective.
  FrozenModel(const Job& job, const ParallelContext& context, HeadLoss head);
  ~FrozenModel();

  // Runs the micro-batches forward, in order; the head gets each. As many on all ranks. Collective.
  void run(const std::vector<data::Batch>& micro_batches);

 private:
  FrozenModel(std::unique_ptr<const ParallelContext> own, const ParallelContext& of_run,
              const Job& job, HeadLoss head);

  // Of a model that is cut into other stages or heads than the run's; else null.
  std::unique_ptr<const ParallelContext> own_context_;
  const ParallelContext& context_;
  std::unique_ptr<nn::Builder> build_;
  std::unique_ptr<models::LanguageModel> model_;
  memory::ChunkEngine weights_;
  memory::Activations activations_;
  StagedModel stages_;
  PipelineExecutor executor_;
};

}  // namespace colossal
