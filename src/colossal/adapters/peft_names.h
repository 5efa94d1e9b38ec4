// Names of adapter parameters in models and in PEFT files.
#pragma once

#include <optional>
#include <string>

#include "colossal/layout/tensor_slice.h"
#include "colossal/nn/parameter.h"

namespace colossal::adapters {

struct AdapterParameter {
  std::string product;  // "blocks.3.query"
  std::string name;     // "lora_A", "lora_B", "lora_embedding_A" ..., "lora_magnitude_vector"
};
// Parses the name of an adapter parameter in the model; nullopt for a parameter of the base model.
std::optional<AdapterParameter> find_adapter_parameter(const std::string& parameter);

// Parameters of the base model and of its adapter.
struct ParametersApart {
  nn::ParameterList of_model, of_adapter;
};
ParametersApart split_parameters(const nn::ParameterList& parameters);

// Returns the location in PEFT files of a fully trained parameter (modules_to_save). slice: its
// location in the model's files.
TensorSlice slice_of_trained(TensorSlice slice);

// Returns the module of a weight in a model's files: "lm_head" for "lm_head.weight".
std::string module_of(const std::string& weight);

// Returns the location of an adapter parameter in PEFT files. weight: location of the adapted
// weight in the model's files. Linear layers stored as one fused module share lora_A and have
// separate rows of lora_B. start_rank: for PiSSA, the rank of the initial A and B, which files
// store after the trained ones; else 0.
TensorSlice slice_in_files(const AdapterParameter& parameter, const TensorSlice& weight,
                           int64_t start_rank = 0);

// Returns the module of a tensor of fully trained parameters in a PEFT file; nullopt if the name is
// not a name of PEFT files.
std::optional<std::string> trained_module(const std::string& tensor);

// Returns the module whose base weight the tensor copies (PEFT saves such copies beside adapters of
// embeddings and heads); nullopt for other tensors.
std::optional<std::string> copied_module(const std::string& tensor);

// Returns the module of an adapter tensor in a PEFT file; nullopt for other tensors.
std::optional<std::string> adapted_module(const std::string& tensor);

}  // namespace colossal::adapters
