#include "colossal/models/assembly.h"

#include "colossal/models/transformer_sharding.h"
#include "colossal/parallel/builder.h"

namespace colossal::models {

Assembly assemble(const ModelSpecification& specification, const ParallelContext& context) {
  Assembly made{.build = parallel::make_builder(context, shardings(specification)),
                .model = nullptr};
  made.model = build_model(specification, *made.build);
  return made;
}

}  // namespace colossal::models
