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
  // W + scale * B A, [out, in] in fp64.
  at::Tensor changed(const std::string& module, const at::Tensor& weight) const;
  at::Tensor factors_of(const std::string& module, const at::Tensor& changed) const;
  at::Tensor read(const std::string& tensor) const;
  // [rank, in], [out, rank] or [out], in fp64.
  at::Tensor read(const std::string& module, const char* name) const;

  models::ModelAdapter adapter_;
  bool stored_in_out_;
  io::SafetensorsReader file_;
};

}  // namespace colossal::checkpoint
