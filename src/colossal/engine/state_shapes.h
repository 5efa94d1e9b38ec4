// Finds the dtypes and shapes of the tensors that the pipeline stages of a language model pass on,
// by running the stages on device meta. pipelined() makes a StagedModel that knows these shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "colossal/engine/staged_model.h"
#include "colossal/job/job.h"
#include "colossal/models/model.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal {

// How to construct a second instance of a model, for a dry run.
struct ModelSource {
  parallel::Shardings shardings;  // how tensor parallelism shards the layers
  std::function<std::unique_ptr<models::Model>(nn::Builder&)> make;  // builds the model
  at::ScalarType compute = at::kFloat;  // dtype in which the model computes
  nn::RouterLosses router_losses = {};  // see router_loss.h; default: none
};

// Returns how to construct the job's model for a dry run.
ModelSource model_source_of(const Job& job);

class StateShapes {
 public:
  // Constructs the model on device meta, sharded as on this rank of `context`. Not collective.
  StateShapes(const ModelSource& source, const ParallelContext& context);
  ~StateShapes();

  // Returns tensors on device meta with the dtypes and shapes that `stage` passes on to the next
  // stage for `batch`. batch: the whole micro-batch, before local_batch(). Remembers the results:
  // another call with the same stage and shapes does not run the stage again.
  StageState after(int stage, const data::Batch& batch);

 private:
  struct DryModel;
  StageState run(int stage, const data::Batch& batch);  // after(), without remembered results

  std::unique_ptr<DryModel> model_;
  // Stage, and the shapes of the batch's fields.
  using Key = std::pair<int, std::vector<int64_t>>;
  std::map<Key, StageState> found_;  // remembered results of after()
};

// Returns the stages of `model` with `loss`, as stages_of() in staged_model.h does, and with the
// losses source.router_losses. If there are several stages, also sets StagedModel::state_like, the
// function from which the rank of the next stage learns what it will receive. It is
// StateShapes::after() of a second instance of the model, made from `source`. `model` and `context`
// must outlive the result.
StagedModel pipelined(models::Model& model, const ModelSource& source,
                      const ParallelContext& context, HeadLoss loss = cross_entropy_of_all);

}  // namespace colossal
