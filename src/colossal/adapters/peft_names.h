// Names of an adapter's parameters: in the model, and in PEFT files.
#pragma once

#include <optional>
#include <string>

#include "colossal/layout/tensor_slice.h"
#include "colossal/nn/parameter.h"

namespace colossal::adapters {

struct AdapterParameter {
  std::string product;  // the adapted layer: "blocks.3.query"
  std::string name;     // "lora_A", "lora_B_start", "lora_magnitude_vector", ...
};
// Parses the name of an adapter parameter in the model; nullopt for a parameter of the base model.
std::optional<AdapterParameter> find_adapter_parameter(const std::string& parameter);

// Parameters of the base model and of its adapter.
struct SplitParameters {
  nn::ParameterList of_model, of_adapter;
};
SplitParameters split_parameters(const nn::ParameterList& parameters);

// Returns where PEFT files store a parameter that is trained fully (modules_to_save). slice: where
// the model's files store it.
TensorSlice slice_of_trained(TensorSlice slice);

// Returns the module that a weight of a model's files belongs to: "lm_head" for "lm_head.weight".
std::string module_of(const std::string& weight);

// Returns where PEFT files store an adapter parameter. weight: where the model's files store the
// adapted weight. Linear layers whose weights are fused in files share lora_A, and have separate
// rows of lora_B. start_rank: with PiSSA, the rank of the initial A and B, which files store after
// the trained ones; else 0.
TensorSlice slice_in_files(const AdapterParameter& parameter, const TensorSlice& weight,
                           int64_t start_rank = 0);

// Returns the module that a tensor of a PEFT file belongs to, provided that the tensor is a fully
// trained parameter: its name without PEFT's prefix and without what follows the last dot. Returns
// nullopt if the name lacks the prefix.
std::optional<std::string> trained_module(const std::string& tensor);

// Returns the module whose base weight this tensor of a PEFT file copies (PEFT saves such copies
// beside adapters of embeddings and heads); nullopt for other tensors.
std::optional<std::string> copied_module(const std::string& tensor);

// Returns the module that an adapter tensor in a PEFT file belongs to; nullopt for other tensors.
std::optional<std::string> adapted_module(const std::string& tensor);

}  // namespace colossal::adapters
