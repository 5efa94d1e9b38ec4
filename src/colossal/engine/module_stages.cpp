#include "colossal/engine/module_stages.h"

#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/range.h"
#include "colossal/parallel/pipeline/stage_cut.h"

namespace colossal {
namespace {

std::string shapes_of(const StageState& state) {
  std::vector<std::string> tensors;
  for (const at::Tensor& tensor : state) {
    tensors.push_back(fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                                  fmt::join(tensor.sizes(), ", ")));
  }
  return tensors.empty() ? "nothing" : fmt::format("{}", fmt::join(tensors, " and "));
}

void check_state(int64_t index, const StageState& state, const StageState& said) {
  if (shapes_of(state) == shapes_of(said)) return;
  throw ConfigError(fmt::format(
      "part {} of the model passes on {}, but its passes_on says {}; they must be equal", index,
      shapes_of(state), shapes_of(said)));
}

class Chain {
 public:
  Chain(std::vector<ModulePart> parts, const std::vector<int64_t>& parts_of_stages)
      : parts_(std::move(parts)) {
    for (const int64_t count : parts_of_stages) {
      const int64_t begin = stages_.empty() ? 0 : stages_.back().end;
      stages_.push_back({begin, begin + count});
    }
  }

  StageResult run(int stage, const StageState& state, const data::Batch& batch,
                  const nn::StepContext& context) const {
    StageResult result{state, {}};
    for (int64_t i = stages_[stage].begin; i < stages_[stage].end; ++i) {
      result = parts_[i].run(result.state, batch, context);
    }
    const bool last = stage + 1 == std::ssize(stages_);
    if (last && !result.loss.sum.defined()) {
      throw ConfigError("the last part of the model returns no loss");
    }
    if (!last) check_state(stages_[stage].end - 1, result.state, state_like(stage, batch));
    return result;
  }

  StageState state_like(int stage, const data::Batch& batch) const {
    const int64_t part = stages_[stage].end - 1;
    if (!parts_[part].passes_on) {
      throw ConfigError(
          fmt::format("part {} of the model ends a stage but has no passes_on, so the next rank "
                      "cannot know what to receive",
                      part));
    }
    return parts_[part].passes_on(batch);
  }

 private:
  std::vector<ModulePart> parts_;
  std::vector<Range> stages_;
};

}  // namespace

std::vector<int64_t> parts_of_stages(const Strategy& strategy, int64_t num_parts) {
  const int stages = strategy.num_stages();
  if (stages > num_parts) {
    throw ConfigError(fmt::format(
        "pp {} with {} stages a rank makes {} stages, and the model has {} parts; use fewer stages",
        strategy.pp, strategy.pp_chunks, stages, num_parts));
  }
  std::vector<int> cut(strategy.stage_blocks.begin(), strategy.stage_blocks.end());
  if (!cut.empty()) {
    parallel::pipeline::check_stage_cut(cut, static_cast<int>(num_parts), stages);
  } else {
    for (int stage = 0; stage < stages; ++stage) {
      cut.push_back(static_cast<int>(num_parts / stages + (stage < num_parts % stages)));
    }
  }
  return {cut.begin(), cut.end()};
}

StagedModel stages_of(std::vector<ModulePart> parts, const std::vector<int64_t>& parts_of_stages) {
  const auto chain = std::make_shared<const Chain>(std::move(parts), parts_of_stages);
  return {
      .run =
          [chain](int stage, const StageState& state, const data::Batch& batch,
                  const nn::StepContext& context) {
            return chain->run(stage, state, batch, context);
          },
      .state_like = [chain](int stage,
                            const data::Batch& batch) { return chain->state_like(stage, batch); }};
}

}  // namespace colossal
