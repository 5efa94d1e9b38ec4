// Adds an adapter to the weights that it adapts, so that a model without it computes the same.
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
  // Merges a folder's adapter into a model's weights. Throws ConfigError if the adapter lacks a
  // tensor.
  explicit AdapterMerge(const models::ModelSpecification& specification);

  // Returns a tensor of the model's files with its adapter merged: W + scale * B A, with DoRA each
  // row of it at its magnitude, computed in fp64 and rounded once. Returns the tensor itself if it
  // has no adapter. Throws ConfigError if shapes do not fit.
  at::Tensor merged(const std::string& name, const at::Tensor& weight) const;
  // Returns the tensor that the adapter has in place of one of the model's files, in fp64;
  // undefined if it has none.
  at::Tensor replaced(const std::string& name) const;
  // What DoRA multiplies the outputs of a module by, whose weight in files this is: [out], fp64.
  at::Tensor factors(const std::string& module, const at::Tensor& weight) const;

 private:
  // Of a table that is looked up by token, [vocabulary, features].
  at::Tensor changed_table(const std::string& module, const at::Tensor& table) const;
  // Of the matrix of one expert, or of those of all.
  at::Tensor changed_experts(const std::string& name, const at::Tensor& weight) const;
  // W + scale * B A in fp64, W being [out, in].
  at::Tensor changed(const std::string& module, const at::Tensor& weight) const;
  at::Tensor factors_of(const std::string& module, const at::Tensor& changed) const;
  at::Tensor read(const std::string& tensor) const;
  // A tensor of the model's files that holds experts' matrices of a product.
  struct OfExperts {
    const adapters::Product* product = nullptr;
    std::optional<int64_t> expert;  // nothing: all of them, [experts, in, out]
    TensorSlice down, up;           // of the adapter
  };
  // [rank, in], [out, rank] or [out], in fp64.
  at::Tensor read(const std::string& module, const char* name) const;

  models::ModelAdapter adapter_;
  bool stored_in_out_;
  io::SafetensorsReader file_;
  std::map<std::string, OfExperts> experts_;
};

}  // namespace colossal::checkpoint
