// ModelView: a second instance of the layers of a model in training, which shares the model's
// weight tensors. Another thread can run forward passes of this instance while a training pass
// runs: online alignment samples texts this way (tune/methods/online_task.h).
#pragma once

#include <memory>

#include "colossal/job/job.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/assembly.h"
#include "colossal/models/model.h"
#include "colossal/nn/builder.h"

namespace colossal {

class ModelView {
 public:
  // Constructs the layers of job.model. job: the job of the model in training. weights: the weights
  // of that model. They must stay on the device at all times, without ZeRO stage 3 and offloading;
  // else InternalError. Destroy this before the next update of the weights, because its layers may
  // cache values derived from the weights. groups: a context with the run's strategy whose groups
  // nothing else uses, because two threads must not use the same group. `groups` and `weights` must
  // outlive this.
  ModelView(const Job& job, const ParallelContext& groups, const memory::ChunkEngine& weights);
  ~ModelView();

  models::Model& model() const { return *assembly_.model; }

 private:
  models::Assembly assembly_;
};

}  // namespace colossal
