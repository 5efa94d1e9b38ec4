// Merges a LoRA adapter into the weights of its model. Without the adapter, the merged model
// computes what the model computes with it, up to the rounding of the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

#include "colossal/io/safetensors.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

class AdapterMerge {
 public:
  // Opens the adapter of `specification`. Throws ConfigError if the adapter is a prefix, if it
  // lacks a tensor, or if it adapts a table that embedding and head share.
  explicit AdapterMerge(const models::ModelSpecification& specification);

  // Returns a tensor of the model's files with the adapter merged. name, weight: the tensor's name
  // and values. The result is W + scale * B A; with DoRA, each row is then scaled to its magnitude.
  // Computed in fp64 and rounded once to the dtype of `weight`. Returns replacement(name) instead
  // if the adapter replaces the tensor, and `weight` itself if the adapter does not change it.
  // Throws ConfigError if shapes do not fit.
  at::Tensor merged(const std::string& name, const at::Tensor& weight) const;
  // Returns, in fp64, the tensor that replaces a tensor of the model's files (modules_to_save).
  // Returns an undefined tensor if the adapter does not replace it.
  at::Tensor replacement(const std::string& name) const;
  // Returns the factors by which DoRA multiplies the outputs of a module: [out], in fp64. weight:
  // the module's weight as stored in files.
  at::Tensor factors(const std::string& module, const at::Tensor& weight) const;

 private:
  // Returns an embedding table, [vocabulary, features], with the adapter merged.
  at::Tensor merged_table(const std::string& module, const at::Tensor& table) const;
  // Returns a tensor with the matrix of one expert, or with those of all, with the adapter merged.
  at::Tensor merged_experts(const std::string& name, const at::Tensor& weight) const;
  // Returns W + scale * B A in fp64. weight: W, [out, in].
  at::Tensor changed(const std::string& module, const at::Tensor& weight) const;
  // Returns factors(). changed: result of the function changed().
  at::Tensor factors_of(const std::string& module, const at::Tensor& changed) const;
  // Reads a tensor of the adapter's file by its name there, and converts it to fp64.
  at::Tensor read(const std::string& tensor) const;
  // A tensor of the model's files that holds a linear layer's weight, of one expert or stacked for
  // all.
  struct ExpertWeight {
    const adapters::Product* product = nullptr;
    std::optional<int64_t> expert;  // index of the expert; nullopt: all experts, [experts, in, out]
    TensorSlice down, up;           // where the adapter's file has A and B
  };
  // Returns a tensor of the adapter in fp64: A [rank, in], B [out, rank], or magnitudes [out].
  at::Tensor read(const std::string& module, const char* name) const;

  models::ModelAdapter adapter_;
  bool stored_in_out_;
  io::SafetensorsReader file_;
  std::map<std::string, ExpertWeight> experts_;  // by the tensor's name in the model's files
};

}  // namespace colossal::checkpoint
