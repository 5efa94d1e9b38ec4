// Makes the stages of a pipeline from a user's own torch modules. A user describes the model as a
// list of ModulePart, and passes the list to Booster::boost().
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "colossal/engine/staged_model.h"
#include "colossal/mesh/strategy.h"

namespace torch::nn {
class Module;
}

namespace colossal {

// One part of a model that is a chain of parts. Each part computes on the output of the part before
// it.
struct ModulePart {
  // Module with the weights of the part. Each rank constructs all parts; Booster::boost() then
  // releases the weights of stages that are on other ranks.
  std::shared_ptr<torch::nn::Module> module;
  // Runs the part on a micro-batch. state: output of the previous part; empty for the first part.
  // batch: the replica's whole micro-batch, on the rank's device, the same for every part. It is
  // not divided over sp, which is 1 for a user's modules. Its members `documents` and `positions`
  // are not set. The last part sets StageResult::loss, every other part sets StageResult::state for
  // the next part.
  std::function<StageResult(const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Returns tensors with the dtypes and shapes of the part's output for `batch`, so that the rank
  // of the next part knows what to receive. Only the sizes of `batch` matter; it may be on any
  // device. The values of the result are not used, so its tensors are best on device meta.
  // Required if the next part belongs to another stage; otherwise it may be empty.
  std::function<StageState(const data::Batch& batch)> passes_on;
};

// Returns the number of parts of each of the strategy.num_stages() stages: strategy.stage_blocks if
// that is set; otherwise numbers that are as even as possible, larger numbers first. num_parts:
// number of parts of the model. Throws ConfigError if there are fewer parts than stages, or if
// strategy.stage_blocks does not sum to num_parts.
std::vector<int64_t> parts_of_stages(const Strategy& strategy, int64_t num_parts);

// Groups the parts, in order, into stages. parts_of_stages: number of parts of each stage, the
// result of the function parts_of_stages(). Running the last stage throws ConfigError if its last
// part returns no loss. Running any other stage throws ConfigError if its last part has no
// passes_on, or returns tensors of other dtypes or shapes than passes_on does.
StagedModel stages_of(std::vector<ModulePart> parts, const std::vector<int64_t>& parts_of_stages);

}  // namespace colossal
