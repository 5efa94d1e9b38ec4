#include "colossal/adapters/peft_names.h"

#include <string_view>

#include "colossal/base/error.h"

namespace colossal::adapters {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kPrefix = "base_model.model.";

std::string_view without_end(std::string_view name, std::string_view end) {
  return name.substr(0, name.size() - end.size());
}

}  // namespace

std::optional<AdapterParameter> find_adapter_parameter(const std::string& parameter) {
  if (!parameter.ends_with(kWeight)) return std::nullopt;
  const std::string_view layer = without_end(parameter, kWeight);
  for (const std::string_view name : {"lora_A", "lora_B"}) {
    if (!layer.ends_with(name) || layer.size() <= name.size()) continue;
    const std::string_view product = without_end(layer, name);
    if (!product.ends_with('.')) continue;
    return AdapterParameter{std::string(without_end(product, ".")), std::string(name)};
  }
  return std::nullopt;
}

ParametersApart split_parameters(const nn::ParameterList& parameters) {
  ParametersApart apart;
  for (const nn::ParameterHandle& parameter : parameters) {
    const bool of_adapter = find_adapter_parameter(parameter->name).has_value();
    (of_adapter ? apart.of_adapter : apart.of_model).push_back(parameter);
  }
  return apart;
}

std::string module_of(const std::string& weight) {
  COLOSSAL_CHECK(weight.ends_with(kWeight), "{} is no weight", weight);
  return std::string(without_end(weight, kWeight));
}

TensorSlice slice_in_files(const AdapterParameter& parameter, const TensorSlice& weight) {
  const std::string name =
      fmt::format("{}{}.{}{}", kPrefix, module_of(weight.name), parameter.name, kWeight);
  if (parameter.name == "lora_A") return {name};
  return {name, weight.rows, weight.num_rows};
}

std::optional<std::string> adapted_module(const std::string& tensor) {
  if (!tensor.starts_with(kPrefix)) return std::nullopt;
  const auto parameter = find_adapter_parameter(tensor.substr(kPrefix.size()));
  if (!parameter) return std::nullopt;
  return parameter->product;
}

}  // namespace colossal::adapters
