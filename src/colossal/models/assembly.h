// assemble(): makes a model on a rank of a layout, for training, dry runs, frozen models, views and
// serving alike.
#pragma once

#include <memory>

#include "colossal/mesh/parallel_context.h"
#include "colossal/models/families.h"
#include "colossal/models/model.h"
#include "colossal/nn/builder.h"

namespace colossal::models {

struct Assembly {
  std::unique_ptr<nn::Builder> build;
  std::unique_ptr<Model> model;

  // Of all pipeline stages.
  const nn::ParameterList& parameters() const { return build->parameters(); }
};

// Makes the layers that this rank of `context` runs, and their parameters, without values.
// `context` must outlive the result.
Assembly assemble(const ModelSpecification& specification, const ParallelContext& context);

}  // namespace colossal::models
