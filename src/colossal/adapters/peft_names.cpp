#include "colossal/adapters/peft_names.h"

#include <array>
#include <string_view>

#include "colossal/base/error.h"

namespace colossal::adapters {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kStart = "_start";
constexpr std::string_view kMagnitudes = "lora_magnitude_vector";
// Factors of embeddings.
constexpr std::string_view kLookedUp = "lora_embedding_A", kLookedUpTo = "lora_embedding_B";

// Names in files have no ".weight" after these.
bool is_bare(std::string_view name) {
  return name == kMagnitudes || name == kLookedUp || name == kLookedUpTo;
}

std::string_view without_end(std::string_view name, std::string_view end) {
  return name.substr(0, name.size() - end.size());
}

}  // namespace

std::optional<AdapterParameter> find_adapter_parameter(const std::string& parameter) {
  if (!parameter.ends_with(kWeight)) return std::nullopt;
  const std::string_view layer = without_end(parameter, kWeight);
  for (const std::string_view name :
       std::array<std::string_view, 7>{"lora_A", "lora_B", "lora_A_start", "lora_B_start",
                                       kMagnitudes, kLookedUp, kLookedUpTo}) {
    if (!layer.ends_with(name) || layer.size() <= name.size()) continue;
    const std::string_view product = without_end(layer, name);
    if (!product.ends_with('.')) continue;
    return AdapterParameter{std::string(without_end(product, ".")), std::string(name)};
  }
  return std::nullopt;
}

SplitParameters split_parameters(const nn::ParameterList& parameters) {
  SplitParameters apart;
  for (const nn::ParameterHandle& parameter : parameters) {
    (parameter->of_adapter ? apart.of_adapter : apart.of_model).push_back(parameter);
  }
  return apart;
}

std::string module_of(const std::string& weight) {
  COLOSSAL_CHECK(weight.ends_with(kWeight), "{} is no weight", weight);
  return std::string(without_end(weight, kWeight));
}

TensorSlice slice_of_trained(TensorSlice slice) {
  slice.name = kPrefix.data() + slice.name;
  for (std::string& name : slice.stacked) name = kPrefix.data() + name;
  return slice;
}

std::optional<std::string> trained_module(const std::string& tensor) {
  const size_t end = tensor.rfind('.');
  if (!tensor.starts_with(kPrefix) || end < kPrefix.size()) return std::nullopt;
  return tensor.substr(kPrefix.size(), end - kPrefix.size());
}

TensorSlice slice_in_files(const AdapterParameter& parameter, const TensorSlice& weight,
                           int64_t start_rank) {
  const std::string layer = kPrefix.data() + module_of(weight.name) + ".";
  if (parameter.name == kMagnitudes) return {layer + parameter.name, weight.rows, weight.num_rows};
  if (is_bare(parameter.name)) return {layer + parameter.name};
  const bool is_start = parameter.name.ends_with(kStart);
  const Range ranks{is_start ? start_rank : 0, (is_start ? 2 : 1) * start_rank};
  const std::string name = fmt::format(
      "{}{}{}", layer, parameter.name.substr(0, std::string_view("lora_A").size()), kWeight);
  if (parameter.name.starts_with("lora_A")) {
    return start_rank == 0 ? TensorSlice{name} : TensorSlice{name, {ranks}, 2 * start_rank};
  }
  return {.name = name,
          .rows = weight.rows,
          .num_rows = weight.num_rows,
          .columns = ranks,
          .num_columns = 2 * start_rank};
}

std::optional<std::string> copied_module(const std::string& tensor) {
  constexpr std::string_view kCopy = ".base_layer.weight";
  if (!tensor.starts_with(kPrefix) || !tensor.ends_with(kCopy)) return std::nullopt;
  return std::string(without_end(tensor, kCopy)).substr(kPrefix.size());
}

std::optional<std::string> adapted_module(const std::string& tensor) {
  if (!tensor.starts_with(kPrefix)) return std::nullopt;
  std::string name = tensor.substr(kPrefix.size());
  if (is_bare(name.substr(name.rfind('.') + 1))) name += kWeight;
  const auto parameter = find_adapter_parameter(name);
  if (!parameter) return std::nullopt;
  return parameter->product;
}

}  // namespace colossal::adapters
