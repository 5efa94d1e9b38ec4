// A user's own modules as the stages of a pipeline.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "colossal/booster/staged_model.h"
#include "colossal/mesh/strategy.h"

namespace torch::nn {
class Module;
}

namespace colossal {

// A part of a model that is a chain of such parts.
struct ModulePart {
  // The weights of the part. All ranks make all parts, and then release those of other ranks'
  // stages.
  std::shared_ptr<torch::nn::Module> module;
  // The part on a micro-batch. state: what the part before has passed on; empty for the first. The
  // last part gives the loss, any other one the state for the next.
  std::function<StageResult(const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Types and shapes of what it passes on for a batch of such sizes, best on meta: how the rank of
  // the next part knows what to receive. Needed where that may be another rank.
  std::function<StageState(const data::Batch& batch)> passes_on;
};

// How many parts each stage of `strategy` has: its stage_blocks, or, where it has none, as many as
// the others, the first ones one more where that does not come out even. Throws ConfigError where
// there are fewer parts than stages, or stage_blocks does not sum to them.
std::vector<int64_t> parts_of_stages(const Strategy& strategy, int64_t num_parts);

// Throws ConfigError, when it runs, where a part does not give what it should.
StagedModel stages_of(std::vector<ModulePart> parts, const std::vector<int64_t>& parts_of_stages);

}  // namespace colossal
