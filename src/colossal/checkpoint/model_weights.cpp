#include "colossal/checkpoint/model_weights.h"

#include <algorithm>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"

namespace colossal::checkpoint {

void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const ReadApart& apart, const std::function<void()>& asked,
                const ChangedWeights& changed) {
  const auto slice_of = [&](const std::string& name) {
    if (asked) asked();
    return models::slice_in_files(specification, name);
  };
  auto [of_model, of_adapter] = adapters::split_parameters(chunks.parameters());
  std::erase_if(of_model, [&](const nn::ParameterHandle& parameter) {
    return std::ranges::count(specification.without_weights, parameter->name) > 0;
  });
  read_weights(
      specification.weights, of_model, chunks, slice_of,
      [&](const std::string& name) { return models::spare_tensor(specification, name); }, apart,
      changed);
  if (!specification.adapter || specification.adapter->weights.empty()) return;
  read_weights_of_file(specification.adapter->weights / adapters::kWeightsFile, of_adapter, chunks,
                       slice_of);
}

}  // namespace colossal::checkpoint
