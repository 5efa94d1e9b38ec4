// A second instance of the layers of a model in training, over the same weights. Another thread can
// run it forward while a training pass runs.
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
  // job: that of the model in training. weights: its weights; they must stay on the device at all
  // times (not ZeRO stage 3, not offloaded). They must not change while this exists, because
  // layers may cache values derived from them. groups: a context with the run's strategy whose
  // groups nothing else uses, because two threads must not use the same group. `groups` and
  // `weights` must outlive this.
  ModelView(const Job& job, const ParallelContext& groups, const memory::ChunkEngine& weights);
  ~ModelView();

  models::LanguageModel& model() const { return *model_; }

 private:
  std::unique_ptr<nn::Builder> build_;
  std::unique_ptr<models::LanguageModel> model_;
};

}  // namespace colossal
