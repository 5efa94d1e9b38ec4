// Finds the dtypes and shapes of the tensors that pipeline stages pass on, by running the stages on
// meta.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "colossal/booster/staged_model.h"
#include "colossal/models/language_model.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal {

// How to construct a second instance of a model, for a dry run.
struct ModelSource {
  parallel::Sharding sharding;
  std::function<std::unique_ptr<models::LanguageModel>(nn::Builder&)> make;
  at::ScalarType compute = at::kFloat;  // dtype of computation
  nn::RouterLosses router_losses = {};
};

class StateShapes {
 public:
  // Constructs the model on meta, sharded as on this rank of `context`.
  StateShapes(const ModelSource& source, const ParallelContext& context);
  ~StateShapes();

  // Returns tensors on meta with the dtypes and shapes that `stage` passes on for this batch.
  // batch: before local_batch(), i.e. not yet cut by sp. Runs the stages only once for each shape
  // of inputs.
  StageState after(int stage, const data::Batch& batch);

 private:
  struct DryModel;
  StageState run(int stage, const data::Batch& batch);

  std::unique_ptr<DryModel> model_;
  using Key = std::pair<int, std::vector<int64_t>>;  // stage, shape of the batch's inputs
  std::map<Key, StageState> found_;
};

// Returns the stages of `model` (stages_of() in staged_model.h), with `loss` and the router losses
// of `source`. If there are several stages, sets StagedModel::state_like, which runs a second
// instance of the model, made from `source`. `model` and `context` must outlive the result.
StagedModel pipelined(models::LanguageModel& model, const ModelSource& source,
                      const ParallelContext& context, HeadLoss loss = cross_entropy_of_all);

}  // namespace colossal
