#include "colossal/checkpoint/adapter_merge.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"

namespace colossal::checkpoint {

AdapterMerge::AdapterMerge(const models::ModelSpecification& specification)
    : adapter_(*specification.adapter),
      stored_in_out_(specification.decoder.stored_in_out),
      file_(adapter_.weights / adapters::kWeightsFile) {
  for (const adapters::Product& product : adapter_.products) {
    for (const char* name : {"lora_A", "lora_B"}) read(product.module, name);
    if (adapter_.settings.dora) read(product.module, "lora_magnitude_vector");
  }
}

at::Tensor AdapterMerge::read(const std::string& module, const char* name) const {
  return read(adapters::slice_in_files({"", name}, {module + ".weight"}).name);
}

at::Tensor AdapterMerge::replaced(const std::string& name) const {
  const std::string tensor = adapters::slice_of_trained({name}).name;
  return file_.find(tensor) ? read(tensor) : at::Tensor();
}

at::Tensor AdapterMerge::read(const std::string& tensor) const {
  const io::TensorEntry* entry = file_.find(tensor);
  if (!entry) {
    throw ConfigError(fmt::format("{}: no tensor \"{}\"", file_.path().string(), tensor));
  }
  const at::Tensor values = at::empty(entry->shape, tensor_type(*entry, file_.path()));
  file_.read(*entry, 0, writable_bytes_of(values));
  return values.to(at::kDouble);
}

at::Tensor AdapterMerge::merged(const std::string& name, const at::Tensor& weight) const {
  if (const at::Tensor own = replaced(name); own.defined()) {
    if (own.sizes() == weight.sizes()) return own.to(weight.scalar_type());
    throw ConfigError(fmt::format("{}: {} is [{}], the model's is [{}]", file_.path().string(),
                                  name, fmt::join(own.sizes(), ", "),
                                  fmt::join(weight.sizes(), ", ")));
  }
  const auto found = std::ranges::find_if(adapter_.products, [&](const adapters::Product& product) {
    return product.module + ".weight" == name;
  });
  if (found == adapter_.products.end()) return weight;
  at::Tensor sum = changed(found->module, weight);
  if (adapter_.settings.dora) sum = sum * factors_of(found->module, sum).unsqueeze(1);
  sum = sum.to(weight.scalar_type());
  return stored_in_out_ ? sum.t().contiguous() : sum;
}

at::Tensor AdapterMerge::factors(const std::string& module, const at::Tensor& weight) const {
  return factors_of(module, changed(module, weight));
}

at::Tensor AdapterMerge::factors_of(const std::string& module, const at::Tensor& changed) const {
  const at::Tensor magnitudes = read(module, "lora_magnitude_vector");
  if (magnitudes.dim() != 1 || magnitudes.size(0) != changed.size(0)) {
    throw ConfigError(fmt::format("{}: the magnitudes of {} have the shape [{}], {} are needed",
                                  file_.path().string(), module,
                                  fmt::join(magnitudes.sizes(), ", "), changed.size(0)));
  }
  return magnitudes / changed.square().sum(1).sqrt();
}

at::Tensor AdapterMerge::changed(const std::string& module, const at::Tensor& weight) const {
  const at::Tensor down = read(module, "lora_A"), up = read(module, "lora_B");
  const at::Tensor oriented = stored_in_out_ ? weight.t() : weight;
  if (down.dim() != 2 || up.dim() != 2 || up.size(1) != down.size(0) ||
      oriented.size(0) != up.size(0) || oriented.size(1) != down.size(1)) {
    throw ConfigError(fmt::format(
        "{}: the adapter of {} has the shapes [{}] and [{}], which do not fit its weight of [{}]",
        file_.path().string(), module, fmt::join(down.sizes(), ", "), fmt::join(up.sizes(), ", "),
        fmt::join(weight.sizes(), ", ")));
  }
  const at::Tensor added = at::mm(up, down).mul_(adapter_.settings.scale(module));
  return added.add_(oriented);
}

}  // namespace colossal::checkpoint
