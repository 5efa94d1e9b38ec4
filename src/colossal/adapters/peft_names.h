// Maps the parameters of an adapter between the model and PEFT files (adapter_model.safetensors).
// In the model, "blocks.3.query.lora_A.weight" is matrix A of layer "blocks.3.query"; in the file,
// it is "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight". A "module" is a layer's
// name in the files of the model: "model.layers.3.self_attn.q_proj".
#pragma once

#include <optional>
#include <string>

#include "colossal/layout/tensor_slice.h"
#include "colossal/nn/parameter.h"

namespace colossal::adapters {

// A parameter of a low-rank adapter in the model.
struct AdapterParameter {
  std::string product;  // full name of the adapted layer: "blocks.3.query"
  // "lora_A", "lora_B", "lora_A_start", "lora_B_start", "lora_magnitude_vector", "lora_embedding_A"
  // or "lora_embedding_B" (see nn::AdapterOptions).
  std::string name;
};
// Parses the full name of a parameter. Returns nullopt if it is not a parameter of a low-rank
// adapter.
std::optional<AdapterParameter> find_adapter_parameter(const std::string& parameter);

// of_adapter: the parameters that the adapter's files store, including the model's own parameters
// that are trained (modules_to_save). of_model: all others.
struct SplitParameters {
  nn::ParameterList of_model, of_adapter;
};
// Splits a model's parameters by nn::Parameter::of_adapter.
SplitParameters split_parameters(const nn::ParameterList& parameters);

// Returns where PEFT files store a parameter of the model that is trained itself, besides the
// adapter (modules_to_save). slice: where the model's files store the parameter.
TensorSlice slice_of_trained(TensorSlice slice);

// Returns the module of a weight in the model's files: "lm_head" for "lm_head.weight". Throws
// InternalError if the name does not end with ".weight".
std::string module_of(const std::string& weight);

// Returns where PEFT files store a parameter of a low-rank adapter.
//   weight      where the model's files store the weight of the adapted layer. Layers with parts of
//               one fused weight share lora_A, and have different rows of lora_B.
//   start_rank  with PiSSA, the rank of A and B; 0: without PiSSA. "lora_A_start" is the initial A,
//               "lora_B_start" the negative of the initial B. In files, one tensor [2 * start_rank,
//               in] has the rows of "lora_A", then those of "lora_A_start"; another tensor [out, 2
//               * start_rank] has the columns of "lora_B", then those of "lora_B_start"
TensorSlice slice_in_files(const AdapterParameter& parameter, const TensorSlice& weight,
                           int64_t start_rank = 0);

// Removes PEFT's prefix "base_model.model." from the name of a tensor in a PEFT file, and the last
// dot with what follows it: "base_model.model.lm_head.weight" becomes "lm_head". Returns nullopt if
// the name does not have the prefix. The tensor is a trained parameter of the model only if
// modules_to_save names the result; the caller checks this.
std::optional<std::string> trained_module(const std::string& tensor);

// Returns the module of a tensor in a PEFT file that is a copy of the module's base weight; nullopt
// for all other tensors. PEFT saves such copies with adapters of embeddings and heads.
std::optional<std::string> copied_module(const std::string& tensor);

// Returns the module of a tensor in a PEFT file that belongs to a low-rank adapter; nullopt for all
// other tensors.
std::optional<std::string> adapted_module(const std::string& tensor);

}  // namespace colossal::adapters
