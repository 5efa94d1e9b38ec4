// Merges a LoRA adapter into the weights of its model. The merged model computes the same without
// the adapter.
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

  // Returns a tensor of the model's files with the adapter merged: W + scale * B A. With DoRA, each
  // row is then scaled to its magnitude. Computed in fp64 and rounded once to the dtype of
  // `weight`. Returns `weight` if it has no adapter. Throws ConfigError if shapes do not fit.
  at::Tensor merged(const std::string& name, const at::Tensor& weight) const;
  // Returns, in fp64, the tensor by which the adapter replaces a tensor of the model's files
  // (modules_to_save); undefined if the adapter does not replace it.
  at::Tensor replaced(const std::string& name) const;
  // Returns the factors by which DoRA multiplies the outputs of a module: [out], in fp64. weight:
  // the module's weight as stored in files.
  at::Tensor factors(const std::string& module, const at::Tensor& weight) const;

 private:
  // Merges into an embedding table, [vocabulary, features].
  at::Tensor changed_table(const std::string& module, const at::Tensor& table) const;
  // Merges into a tensor with the matrix of one expert, or with the matrices of all experts.
  at::Tensor changed_experts(const std::string& name, const at::Tensor& weight) const;
  // Returns W + scale * B A in fp64. weight: W, [out, in].
  at::Tensor changed(const std::string& module, const at::Tensor& weight) const;
  at::Tensor factors_of(const std::string& module, const at::Tensor& changed) const;
  at::Tensor read(const std::string& tensor) const;
  // Describes a tensor of the model's files that has a linear layer of one expert or of all
  // experts.
  struct OfExperts {
    const adapters::Product* product = nullptr;
    std::optional<int64_t> expert;  // nullopt: all experts, [experts, in, out]
    TensorSlice down, up;           // where the adapter's file has A and B
  };
  // Returns a tensor of the adapter in fp64: A [rank, in], B [out, rank], or magnitudes [out].
  at::Tensor read(const std::string& module, const char* name) const;

  models::ModelAdapter adapter_;
  bool stored_in_out_;
  io::SafetensorsReader file_;
  std::map<std::string, OfExperts> experts_;
};

}  // namespace colossal::checkpoint
