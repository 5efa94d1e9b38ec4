// A second model that a training run only evaluates, on the run's ranks: the reference model of an
// alignment method, a reward model, or the teacher of a distillation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/engine/pipeline_executor.h"
#include "colossal/engine/staged_model.h"
#include "colossal/job/job.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/assembly.h"

namespace colossal {

// Returns a job for FrozenModel: that of the run, with its model replaced by the model in `folder`.
// If the folder holds an adapter, the model is the adapter's base model with the adapter. The
// tokenizer is that of the folder, or that of the run if the folder has none. setting: the run's
// key that names the folder; error messages begin with it. Throws ConfigError if the model does not
// fit the run's layout or sequence length, or has no weights.
Job job_of_folder(const Job& run, const std::string& folder, const std::string& setting);

class FrozenModel {
 public:
  // Loads the model of `job` as it is at the start of a run: with the weights of the model's
  // folder, or with weights initialised from the seed. Leaves out a newly initialized adapter of
  // the job: the frozen model is then the model from which the adapter starts. The weights have no
  // gradients and no optimizer state. They are sharded if the job has ZeRO stage 3, and offloaded
  // as the job says.
  // job: the run's job, or the result of job_of_folder(). context: the run's context, which must
  // outlive this. head: run() calls this function on the ranks of the last stage. It computes and
  // stores what the caller needs from the last block's output, and returns an empty LossSum.
  // Collective.
  FrozenModel(const Job& job, const ParallelContext& context, HeadLoss head);
  ~FrozenModel();

  // Runs the forward passes of the micro-batches of this rank's replica, in order, and calls `head`
  // for each. All ranks must pass the same number of micro-batches. A replica may have
  // micro-batches without sequences; `head` is not called for them. Collective.
  void run(const std::vector<data::Batch>& micro_batches);

 private:
  FrozenModel(std::unique_ptr<const ParallelContext> own, const ParallelContext& of_run,
              const Job& job, HeadLoss head);

  // Set if this model's stages, attention heads or experts are divided among the ranks in another
  // way than those of the run's model, so that this model needs groups of its own; else null.
  std::unique_ptr<const ParallelContext> own_context_;
  const ParallelContext& context_;
  models::Assembly assembly_;
  memory::ChunkEngine weights_;
  memory::Activations activations_;
  StagedModel stages_;
  PipelineExecutor executor_;
};

}  // namespace colossal
