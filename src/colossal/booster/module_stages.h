// A user's own torch modules as the stages of a pipeline.
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
  // Module with the weights of the part. Each rank constructs all parts; Booster::boost() then
  // releases the weights of stages that are on other ranks.
  std::shared_ptr<torch::nn::Module> module;
  // Runs the part on a micro-batch. state: output of the previous part; empty for the first part.
  // The last part returns the loss, every other part returns the state for the next part.
  std::function<StageResult(const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Returns tensors, preferably on meta, with the dtypes and shapes of the part's output for a
  // batch of this size, so that the rank of the next part knows what to receive. Required if the
  // next part may be on another rank.
  std::function<StageState(const data::Batch& batch)> passes_on;
};

// Returns the number of parts of each stage: strategy.stage_blocks, or, if that is empty, numbers
// as even as possible, larger numbers first. Throws ConfigError if there are fewer parts than
// stages, or if stage_blocks does not sum to the number of parts.
std::vector<int64_t> parts_of_stages(const Strategy& strategy, int64_t num_parts);

// Groups the parts into stages. parts_of_stages: number of parts of each stage. When a stage runs,
// it throws ConfigError if the last part of the chain returns no loss, or if another stage's last
// part returns tensors of other dtypes or shapes than its passes_on.
StagedModel stages_of(std::vector<ModulePart> parts, const std::vector<int64_t>& parts_of_stages);

}  // namespace colossal
