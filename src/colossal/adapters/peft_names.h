// Names of an adapter's parameters, in models and in the files of peft.
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
// Reads the name of an adapter's parameter in the model; nothing for a parameter of the model
// itself.
std::optional<AdapterParameter> find_adapter_parameter(const std::string& parameter);

struct ParametersApart {
  nn::ParameterList of_model, of_adapter;
};
ParametersApart split_parameters(const nn::ParameterList& parameters);

// Returns where peft files hold a parameter that is trained as it is. slice: where the model's
// files hold it.
TensorSlice slice_of_trained(TensorSlice slice);

// The module of a weight in a model's files: "lm_head" of "lm_head.weight".
std::string module_of(const std::string& weight);

// Returns where peft files hold the parameter. weight: where the model's files hold the weight of
// its product. Parts of one module share "lora_A", and each has its rows of "lora_B". start_rank:
// the rank of the start that is kept, which files have behind the adapter's own; 0: none is.
TensorSlice slice_in_files(const AdapterParameter& parameter, const TensorSlice& weight,
                           int64_t start_rank = 0);

// Returns the module of a tensor of a peft file that is of a module trained as it is; nothing for
// one that no peft file has.
std::optional<std::string> trained_module(const std::string& tensor);

// Returns the module of whose weight in the model a tensor of a peft file is a copy, as peft saves
// beside adapters of embeddings and heads; nothing for another tensor.
std::optional<std::string> copied_module(const std::string& tensor);

// Returns the module that a tensor of a peft file belongs to; nothing for a tensor of no adapter.
std::optional<std::string> adapted_module(const std::string& tensor);

}  // namespace colossal::adapters
