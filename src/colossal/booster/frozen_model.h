// A model that is not trained, at the layout of the model that a run trains: the reference of an
// alignment method, a reward model, or a teacher.
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

// Returns the run's job with its model replaced by the model in `folder`, for a FrozenModel. If the
// folder holds an adapter, the model is the adapter's base model with the adapter. The tokenizer is
// that of the folder, or that of the run if the folder has none. Throws ConfigError if the model
// does not fit the run's layout or sequence length, or has no weights. The message begins with
// `setting`, the run's key that names the folder.
Job job_of_folder(const Job& run, const std::string& folder, const std::string& setting);

class FrozenModel {
 public:
  // Holds the job's model as a run would start with it: with the weights of the model's folder, or
  // with weights initialised from the seed. A new adapter of the job is left out, because it does
  // not change the model yet. The weights have no gradients and no optimizer state; ZeRO stage 3
  // and offloading apply to them too. job: the run's job, or the result of job_of_folder().
  // context: that of the run; must outlive this. head: called for each micro-batch on the ranks of
  // the last stage. Collective.
  FrozenModel(const Job& job, const ParallelContext& context, HeadLoss head);
  ~FrozenModel();

  // Runs the micro-batches of this rank's replica forward, in order, and calls the head for each.
  // All ranks must pass the same number of micro-batches. Collective.
  void run(const std::vector<data::Batch>& micro_batches);

 private:
  FrozenModel(std::unique_ptr<const ParallelContext> own, const ParallelContext& of_run,
              const Job& job, HeadLoss head);

  // Set if the model is divided otherwise than the run's model, into stages, heads or experts; then
  // it needs groups of its own. Else null.
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
