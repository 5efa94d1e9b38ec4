// Types and shapes of what the stages of a pipeline pass on, found by running them on meta.
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

// How a model is made once more, for a dry run.
struct ModelSource {
  parallel::Sharding sharding;
  std::function<std::unique_ptr<models::LanguageModel>(nn::Builder&)> make;
  at::ScalarType compute = at::kFloat;
  nn::RouterLosses router_losses = {};
};

class StateShapes {
 public:
  // Finds the shapes as this rank of `context` sees them.
  StateShapes(const ModelSource& source, const ParallelContext& context);
  ~StateShapes();

  // Returns, on meta, what `stage` passes on for a batch of these sizes.
  StageState after(int stage, const data::Batch& batch);

 private:
  struct DryModel;
  StageState run(int stage, const data::Batch& batch);

  std::unique_ptr<DryModel> model_;
  using Key = std::pair<int, std::vector<int64_t>>;  // stage, sizes of the inputs
  std::map<Key, StageState> found_;
};

// Returns stages_of(), with state_like if there are several stages.
StagedModel pipelined(models::LanguageModel& model, const ModelSource& source,
                      const ParallelContext& context, HeadLoss loss = cross_entropy_of_all);

}  // namespace colossal
