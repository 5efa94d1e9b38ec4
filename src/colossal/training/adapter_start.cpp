#include "colossal/training/adapter_start.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/nn/held_runs.h"

namespace colossal {
namespace {

// Returns each module once, in the order of the adapter's products.
std::vector<std::string> modules_of(const models::ModelAdapter& adapter) {
  std::vector<std::string> modules;
  for (const adapters::Product& product : adapter.products) {
    if (std::ranges::find(modules, product.module) == modules.end()) {
      modules.push_back(product.module);
    }
  }
  return modules;
}

at::Tensor read_of_adapter(const io::SafetensorsReader& file, const std::string& module,
                           const char* name) {
  const std::string tensor = adapters::slice_in_files({"", name}, {module + ".weight"}).name;
  const io::TensorEntry* entry = file.find(tensor);
  if (!entry) {
    throw ConfigError(fmt::format("{}: no tensor \"{}\"", file.path().string(), tensor));
  }
  const at::Tensor values = at::empty(entry->shape, checkpoint::tensor_type(*entry, file.path()));
  file.read(*entry, 0, checkpoint::writable_bytes_of(values));
  return values;
}

void check_rank(const std::string& module, int64_t rank, int64_t most) {
  if (rank <= most) return;
  throw ConfigError(fmt::format(
      "adapter.initial = \"pissa\": the rank of {} is {}, but its weight has only {} singular "
      "values; use at most that rank, with adapter.rank or adapter.rank_pattern",
      module, rank, most));
}

// Returns A and B, flattened, one after the other: scale * B A is the best approximation of
// `weight` ([out, in]) with this rank.
at::Tensor largest_singular_values(const at::Tensor& weight, int64_t rank, double scale) {
  const auto [left, values, right] = at::linalg_svd(weight, /*full_matrices=*/false);
  const at::Tensor roots = (values.narrow(0, 0, rank) / scale).sqrt();
  const at::Tensor down = roots.unsqueeze(1) * right.narrow(0, 0, rank);
  const at::Tensor up = left.narrow(1, 0, rank) * roots;
  return at::cat({down.flatten(), up.flatten()});
}

}  // namespace

AdapterStart AdapterStart::of_weights(const models::ModelSpecification& specification,
                                      at::ScalarType type, const ParallelContext& context) {
  AdapterStart start(specification);
  const adapters::LoraSettings& settings = specification.adapter->settings;
  const bool in_out = specification.transformer.stored_in_out;
  const checkpoint::WeightFolder directory(specification.weights);
  const comm::Group& all = context.world_group();
  int next = 0;
  for (const std::string& module : modules_of(*specification.adapter)) {
    const std::string name = module + ".weight";
    const std::vector<int64_t> shape = checkpoint::weight_shape(directory, name);
    const int64_t out = shape.at(in_out ? 1 : 0), in = shape.at(in_out ? 0 : 1);
    const int64_t rank = settings.rank_of(module);
    check_rank(module, rank, std::min(out, in));
    const int owner = next++ % all.size();
    const at::Tensor found =
        at::empty({rank * (in + out)}, at::TensorOptions(type).device(context.device()));
    if (owner == all.rank()) {
      const at::Tensor weight = checkpoint::read_weight(directory, name)
                                    .to(type == at::kDouble ? at::kDouble : at::kFloat);
      found.copy_(
          largest_singular_values(in_out ? weight.t() : weight, rank, settings.scale(module)));
    }
    if (all.size() > 1) comm::broadcast(found, owner, all, comm::Reason::parameter);
    const at::Tensor on_host = found.cpu();
    start.initial_by_module_[module] = {on_host.narrow(0, 0, rank * in).view({rank, in}),
                                        on_host.narrow(0, rank * in, out * rank).view({out, rank})};
  }
  return start;
}

AdapterStart AdapterStart::of_checkpoint(const models::ModelSpecification& specification,
                                         const std::filesystem::path& checkpoint) {
  AdapterStart start(specification);
  const io::SafetensorsReader file(checkpoint / adapters::kWeightsFile);
  for (const std::string& module : modules_of(*specification.adapter)) {
    const at::Tensor down = read_of_adapter(file, module, "lora_A"),
                     up = read_of_adapter(file, module, "lora_B");
    const int64_t rank = specification.adapter->settings.rank_of(module);
    if (down.dim() != 2 || up.dim() != 2 || down.size(0) != 2 * rank || up.size(1) != 2 * rank) {
      throw ConfigError(
          fmt::format("{}: the adapter of {} has the shapes [{}] and [{}]; with adapter.initial = "
                      "\"pissa\" and rank {} it must have twice that rank",
                      file.path().string(), module, fmt::join(down.sizes(), ", "),
                      fmt::join(up.sizes(), ", "), rank));
    }
    start.initial_by_module_[module] = {down.narrow(0, rank, rank), up.narrow(1, rank, rank).neg()};
  }
  return start;
}

const adapters::Product* AdapterStart::product_of(const nn::Parameter& weight) const {
  const auto& products = specification_->adapter->products;
  const auto found = std::ranges::find_if(products, [&](const adapters::Product& product) {
    return weight.name == product.name + ".weight";
  });
  return found == products.end() ? nullptr : &*found;
}

at::Tensor AdapterStart::rows_of(const adapters::Product& product, const at::Tensor& up) const {
  const TensorSlice slice = models::slice_in_files(*specification_, product.name + ".weight");
  return slice.is_whole() ? up : nn::select_runs(up, 0, slice.rows);
}

checkpoint::ChangedWeights AdapterStart::weight_residual() const {
  return {.applies = [this](const nn::Parameter& weight) { return product_of(weight) != nullptr; },
          .change = [this](const nn::Parameter& weight,
                           const at::Tensor& here) { return residual_of(weight, here); }};
}

at::Tensor AdapterStart::residual_of(const nn::Parameter& weight, const at::Tensor& here) const {
  const adapters::Product& product = *product_of(weight);
  const Pair& pair = initial_by_module_.at(product.module);
  const bool in_out = weight.product == nn::WeightOrder::in_out;
  const at::Tensor up =
      nn::select_runs(rows_of(product, pair.up), 0, nn::runs_here(weight, in_out ? 1 : 0))
          .to(at::kDouble);
  const at::Tensor down =
      nn::select_runs(pair.down, 1, nn::runs_here(weight, in_out ? 0 : 1)).to(at::kDouble);
  const at::Tensor taken =
      at::mm(up, down).mul_(specification_->adapter->settings.scale(product.module));
  return here.to(at::kDouble) - (in_out ? taken.t() : taken);
}

void AdapterStart::load(memory::ChunkEngine& chunks) const {
  for (const nn::ParameterHandle& parameter : chunks.parameters()) {
    const auto of_adapter = adapters::find_adapter_parameter(parameter->name);
    if (!of_adapter) continue;
    const auto product = std::ranges::find(specification_->adapter->products, of_adapter->product,
                                           &adapters::Product::name);
    const Pair& pair = initial_by_module_.at(product->module);
    at::Tensor values = pair.down;
    if (of_adapter->name == "lora_B") values = rows_of(*product, pair.up);
    if (of_adapter->name == "lora_B_start") values = rows_of(*product, pair.up).neg();
    chunks.load(*parameter, 0, values.contiguous().view(-1));
  }
}

}  // namespace colossal
