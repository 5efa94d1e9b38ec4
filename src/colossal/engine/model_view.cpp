#include "colossal/engine/model_view.h"

#include "colossal/base/error.h"

namespace colossal {

ModelView::ModelView(const Job& job, const ParallelContext& groups,
                     const memory::ChunkEngine& weights)
    : assembly_(models::assemble(job.model, groups)) {
  COLOSSAL_CHECK(!weights.weights_are_transient(), "a view of weights that come and go");
  const nn::ParameterList& here = assembly_.parameters();
  const nn::ParameterList& there = weights.parameters();
  COLOSSAL_CHECK(here.size() == there.size(), "{} parameters, {} of the model in training",
                 here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i) {
    COLOSSAL_CHECK(here[i]->name == there[i]->name, "parameter {} instead of {}", here[i]->name,
                   there[i]->name);
    if (there[i]->tensor.defined()) here[i]->tensor = there[i]->tensor.detach();
  }
}

ModelView::~ModelView() = default;

}  // namespace colossal
