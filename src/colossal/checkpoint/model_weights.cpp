#include "colossal/checkpoint/model_weights.h"

#include <algorithm>
#include <iterator>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"

namespace colossal::checkpoint {

void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const ReadApart& apart, const std::function<void()>& asked,
                const ChangedWeights& changed) {
  const auto slice_of = [&](const std::string& name) {
    if (asked) asked();
    return models::slice_in_model(specification, name);
  };
  auto [of_model, of_adapter] = adapters::split_parameters(chunks.parameters());
  const auto& adapter = specification.adapter;
  const bool from_folder = adapter && !adapter->weights.empty();
  if (adapter && !from_folder) {  // what is trained as it is begins as the model has it
    std::ranges::copy_if(of_adapter, std::back_inserter(of_model),
                         [&](const nn::ParameterHandle& parameter) {
                           return std::ranges::count(adapter->trained, parameter->name) > 0;
                         });
  }
  std::erase_if(of_model, [&](const nn::ParameterHandle& parameter) {
    return std::ranges::count(specification.without_weights, parameter->name) > 0;
  });
  read_weights(
      specification.weights, of_model, chunks, slice_of,
      [&](const std::string& name) { return models::spare_tensor(specification, name); }, apart,
      changed);
  if (!from_folder) return;
  read_weights_of_file(
      adapter->weights / adapters::kWeightsFile, of_adapter, chunks,
      [&](const std::string& name) { return models::slice_in_files(specification, name); });
}

}  // namespace colossal::checkpoint
