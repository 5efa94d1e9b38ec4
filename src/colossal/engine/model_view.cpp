#include "colossal/engine/model_view.h"

#include "colossal/base/error.h"
#include "colossal/parallel/builder.h"

namespace colossal {

ModelView::ModelView(const Job& job, const ParallelContext& groups,
                     const memory::ChunkEngine& weights)
    : build_(parallel::make_builder(groups, models::sharding(job.model))),
      model_(models::build_model(job.model, *build_)) {
  COLOSSAL_CHECK(!weights.weights_are_transient(), "a view of weights that come and go");
  const nn::ParameterList& here = build_->parameters();
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
