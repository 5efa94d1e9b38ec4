// Adds an adapter to the weights that it adapts, so that a model without it computes the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "colossal/io/safetensors.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

class AdapterMerge {
 public:
  // Merges a folder's adapter into a model's weights. Throws ConfigError if the adapter lacks a
  // tensor.
  explicit AdapterMerge(const models::ModelSpecification& specification);

  // Returns a tensor of the model's files with its adapter merged: W + scale * B A, computed in
  // fp64 and rounded once. Returns the tensor itself if it has no adapter. Throws ConfigError if
  // shapes do not fit.
  at::Tensor merged(const std::string& name, const at::Tensor& weight) const;

 private:
  // [rank, in] or [out, rank], in fp64.
  at::Tensor read(const std::string& module, const char* name) const;

  models::ModelAdapter adapter_;
  bool stored_in_out_;
  io::SafetensorsReader file_;
};

}  // namespace colossal::checkpoint
