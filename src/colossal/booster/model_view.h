// The layers of a model in training once more, over the same weights, so that another thread can
// run it forward beside a training pass.
#pragma once

#include <memory>

#include "colossal/booster/job.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/nn/builder.h"

namespace colossal {

class ModelView {
 public:
  // job: of the model in training. weights: its weights, all of them here between uses and none
  // under way. They must not change while this lives, as layers may keep what follows from them.
  // groups: of the run's strategy, used by this alone: two threads must not call one group.
  ModelView(const Job& job, const ParallelContext& groups, const memory::ChunkEngine& weights);
  ~ModelView();

  models::LanguageModel& model() const { return *model_; }

 private:
  std::unique_ptr<nn::Builder> build_;
  std::unique_ptr<models::LanguageModel> model_;
};

}  // namespace colossal
