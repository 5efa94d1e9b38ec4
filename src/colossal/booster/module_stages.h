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

// One part of a model that is a chain of parts.
struct ModulePart {
  // The weights of the part. All ranks make all parts, and then release those of other ranks'
  // stages.
  std::shared_ptr<torch::nn::Module> module;
  // Runs the part on a micro-batch. state: what the part before passed on; empty for the first. The
  // last part returns the loss, any other one the state for the next.
  std::function<StageResult(const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Returns tensors with the types and shapes of what it passes on for a batch of these sizes, best
  // on meta, so that the rank of the next part knows what to receive. Needed if that may be another
  // rank.
  std::function<StageState(const data::Batch& batch)> passes_on;
};

// Returns how many parts each stage has: strategy.stage_blocks, or, if there are none, as even
// numbers as they go, larger ones first. Throws ConfigError if there are fewer parts than stages,
// or if stage_blocks does not sum to the number of parts.
std::vector<int64_t> parts_of_stages(const Strategy& strategy, int64_t num_parts);

// Makes stages of the parts. They throw ConfigError, when they run, if a part does not return what
// it should.
StagedModel stages_of(std::vector<ModulePart> parts, const std::vector<int64_t>& parts_of_stages);

}  // namespace colossal
