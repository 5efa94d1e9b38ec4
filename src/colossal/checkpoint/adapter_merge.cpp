#include "colossal/checkpoint/adapter_merge.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/nn/held_runs.h"

namespace colossal::checkpoint {
namespace {

bool is_looked_up(const adapters::Product& product) {
  return product.name == "token_embedding";
}

}  // namespace

AdapterMerge::AdapterMerge(const models::ModelSpecification& specification)
    : adapter_(*specification.adapter),
      stored_in_out_(specification.transformer.stored_in_out),
      vocabulary_(specification.transformer.vocabulary),
      file_(adapter_.weights / adapters::kWeightsFile) {
  if (adapter_.prefix) {
    throw ConfigError(
        fmt::format("{}: a prefix cannot be merged, because it is not part of any weight of a "
                    "model; use it with --adapter of generate, evaluate and serve",
                    file_.path().string()));
  }
  for (const adapters::Product& product : adapter_.products) {
    if (!product.is_of_blocks() && specification.transformer.tied_head &&
        !specification.facts.is_decoder()) {
      throw ConfigError(
          fmt::format("{}: the adapter changes {}, whose table the embedding and the output head "
                      "share (tie_word_embeddings = true), so merging would change both; use it "
                      "with --adapter of generate, evaluate and serve",
                      file_.path().string(), product.module));
    }
    if (product.is_of_experts()) {
      const TensorSlice weight = models::slice_in_model(specification, product.name + ".weight");
      const ExpertWeight of_all{
          &product, std::nullopt,
          models::slice_in_files(specification, product.name + ".lora_A.weight"),
          models::slice_in_files(specification, product.name + ".lora_B.weight")};
      for (size_t expert = 0; expert < weight.names().size(); ++expert) {
        ExpertWeight& of_tensor = experts_[weight.names()[expert]] = of_all;
        if (!weight.stacked.empty()) of_tensor.expert = static_cast<int64_t>(expert);
      }
      continue;
    }
    const bool looked_up = is_looked_up(product);
    for (const char* name :
         {looked_up ? "lora_embedding_A" : "lora_A", looked_up ? "lora_embedding_B" : "lora_B"}) {
      read(product.module, name);
    }
    if (adapter_.settings.dora) read(product.module, "lora_magnitude_vector");
  }
}

at::Tensor AdapterMerge::read(const std::string& module, const char* name) const {
  return read(adapters::slice_in_files({"", name}, {module + ".weight"}).name);
}

at::Tensor AdapterMerge::replacement(const std::string& name) const {
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
  if (const at::Tensor own = replacement(name); own.defined()) {
    const bool grows = own.dim() == 2 && weight.dim() == 2 && own.size(0) == vocabulary_ &&
                       own.size(1) == weight.size(1);
    if (grows || own.sizes() == weight.sizes()) return own.to(weight.scalar_type());
    throw ConfigError(fmt::format("{}: {} is [{}], the model's is [{}]", file_.path().string(),
                                  name, fmt::join(own.sizes(), ", "),
                                  fmt::join(weight.sizes(), ", ")));
  }
  if (experts_.contains(name)) return merged_experts(name, weight);
  const auto found = std::ranges::find_if(adapter_.products, [&](const adapters::Product& product) {
    return product.module + ".weight" == name;
  });
  if (found == adapter_.products.end()) return weight;
  if (is_looked_up(*found)) return merged_table(found->module, weight);
  const bool in_out = is_stored_in_out(*found);
  at::Tensor sum = changed(found->module, in_out ? weight.t() : weight);
  if (adapter_.settings.dora) sum = sum * factors_of(found->module, sum).unsqueeze(1);
  sum = sum.to(weight.scalar_type());
  return in_out ? sum.t().contiguous() : sum;
}

at::Tensor AdapterMerge::merged_table(const std::string& module, const at::Tensor& table) const {
  const at::Tensor down = read(module, "lora_embedding_A"), up = read(module, "lora_embedding_B");
  if (down.dim() != 2 || up.dim() != 2 || up.size(1) != down.size(0) ||
      table.size(0) != down.size(1) || table.size(1) != up.size(0)) {
    throw ConfigError(fmt::format(
        "{}: the adapter of {} has the shapes [{}] and [{}], which do not fit its table of [{}]",
        file_.path().string(), module, fmt::join(down.sizes(), ", "), fmt::join(up.sizes(), ", "),
        fmt::join(table.sizes(), ", ")));
  }
  return at::mm(down.t(), up.t())
      .mul_(adapter_.settings.scale(module))
      .add_(table)
      .to(table.scalar_type());
}

at::Tensor AdapterMerge::merged_experts(const std::string& name, const at::Tensor& weight) const {
  const ExpertWeight& of_tensor = experts_.at(name);
  const std::string& module = of_tensor.product->module;
  const int64_t rank = adapter_.settings.rank_of(module);
  at::Tensor down = read(of_tensor.down.name), up = read(of_tensor.up.name);
  if (!of_tensor.up.is_whole()) up = nn::select_runs(up, 0, of_tensor.up.rows);
  if (down.dim() != 2 || up.dim() != 2 || down.size(0) != up.size(1) || down.size(0) % rank != 0) {
    throw ConfigError(
        fmt::format("{}: the adapters of {} have the shapes [{}] and [{}], which do not fit "
                    "experts with rank {}",
                    file_.path().string(), module, fmt::join(down.sizes(), ", "),
                    fmt::join(up.sizes(), ", "), rank));
  }
  const int64_t experts = down.size(0) / rank;
  if (of_tensor.expert && *of_tensor.expert >= experts) {
    throw ConfigError(
        fmt::format("{}: the adapters of {} are for {} experts, but the model has \"{}\"",
                    file_.path().string(), module, experts, name));
  }
  down = down.unflatten(0, {experts, rank});
  up = up.unflatten(1, {rank, experts}).permute({2, 0, 1});
  at::Tensor added = of_tensor.expert ? at::mm(up[*of_tensor.expert], down[*of_tensor.expert])
                                      : at::bmm(up, down).transpose(1, 2);
  if (added.sizes() != weight.sizes()) {
    throw ConfigError(fmt::format("{}: the adapters of {} are for matrices [{}], but {} is [{}]",
                                  file_.path().string(), module, fmt::join(added.sizes(), ", "),
                                  name, fmt::join(weight.sizes(), ", ")));
  }
  return (added * adapter_.settings.scale(module) + weight).to(weight.scalar_type());
}

at::Tensor AdapterMerge::factors(const std::string& module, const at::Tensor& weight) const {
  const auto found = std::ranges::find(adapter_.products, module,
                                       [](const auto& product) { return product.module; });
  COLOSSAL_CHECK(found != adapter_.products.end(), "no adapter of {}", module);
  return factors_of(module, changed(module, is_stored_in_out(*found) ? weight.t() : weight));
}

at::Tensor AdapterMerge::factors_of(const std::string& module, const at::Tensor& changed) const {
  const at::Tensor magnitudes = read(module, "lora_magnitude_vector");
  if (magnitudes.dim() != 1 || magnitudes.size(0) != changed.size(0)) {
    throw ConfigError(fmt::format("{}: the magnitudes of {} have the shape [{}], but must have {}",
                                  file_.path().string(), module,
                                  fmt::join(magnitudes.sizes(), ", "), changed.size(0)));
  }
  return magnitudes / changed.square().sum(1).sqrt();
}

at::Tensor AdapterMerge::changed(const std::string& module, const at::Tensor& weight) const {
  const at::Tensor down = read(module, "lora_A"), up = read(module, "lora_B");
  if (down.dim() != 2 || up.dim() != 2 || up.size(1) != down.size(0) ||
      weight.size(0) != up.size(0) || weight.size(1) != down.size(1)) {
    throw ConfigError(fmt::format(
        "{}: the adapter of {} has the shapes [{}] and [{}], which do not fit its weight of [{}]",
        file_.path().string(), module, fmt::join(down.sizes(), ", "), fmt::join(up.sizes(), ", "),
        fmt::join(weight.sizes(), ", ")));
  }
  const at::Tensor added = at::mm(up, down).mul_(adapter_.settings.scale(module));
  return added.add_(weight);
}

}  // namespace colossal::checkpoint
