// A folder with a model's random weights.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/io/safetensors.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/random.h"

namespace colossal::test {

using ChangeWeight = std::function<at::Tensor(const nn::Parameter&, const at::Tensor& weight)>;

// As one file, numbers in fp32.
inline void write_tensors(const std::map<std::string, at::Tensor>& values,
                          const std::map<std::string, std::vector<int64_t>>& shapes,
                          const std::filesystem::path& path) {
  std::vector<io::TensorSpec> tensors;
  for (const auto& [name, shape] : shapes) tensors.push_back({name, io::ScalarType::f32, shape});
  const io::SafetensorsPlan plan = io::plan_safetensors(tensors, {});
  std::ofstream file(path, std::ios::binary);
  file << plan.header;
  for (const io::TensorEntry& entry : plan.entries) {
    const auto bytes = checkpoint::bytes_of(values.at(entry.name));
    file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  }
}

// Random weights as a Hugging Face folder has them, and these tensors besides. `change` gives the
// weights of products and the head's table, as they lie in files, other values.
inline void write_random_weights(models::ModelSpecification& specification,
                                 const std::filesystem::path& folder,
                                 const std::map<std::string, at::Tensor>& others = {},
                                 const ChangeWeight& change = {}) {
  nn::DenseBuilder build;
  models::build_model(specification, build);
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, at::Tensor> values;
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    at::Tensor made = at::empty({parameter->numel()}, at::kFloat);
    ops::fill_normal(made, 0, ops::parameter_stream(3, parameter->name), 0, 0.5);
    if (change && (parameter->product || parameter->role == nn::ParameterRole::head_table)) {
      made = change(*parameter, made.view(parameter->shape)).contiguous().view(-1);
    }
    const TensorSlice slice = models::slice_in_files(specification, parameter->name);
    const std::vector<int64_t> shape = slice.tensor_shape(parameter->shape);
    for (const std::string& name : slice.names()) {
      if (values.contains(name)) continue;
      shapes[name] = shape;
      values[name] = at::zeros({c10::multiply_integers(shape)}, at::kFloat);
    }
    slice.for_each_run(parameter->shape, {0, parameter->numel()}, [&](const TensorSlice::Run& run) {
      values[slice.names()[run.tensor]]
          .narrow(0, run.tensor_begin, run.count)
          .copy_(made.narrow(0, run.parameter_begin, run.count));
    });
  }
  for (const auto& [name, tensor] : others) {
    shapes[name] = tensor.sizes().vec();
    values[name] = tensor;
  }
  write_tensors(values, shapes, folder / "model.safetensors");
  specification.weights = folder;
}

}  // namespace colossal::test
