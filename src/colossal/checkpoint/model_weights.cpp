#include "colossal/checkpoint/model_weights.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/checkpoint/stored_tensor.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {
namespace {

// Checks that copies of the model's weights in an adapter's file are equal, up to rounding to the
// narrower type.
void check_copies(const models::ModelSpecification& adapted, const std::filesystem::path& path) {
  const io::SafetensorsReader file(path);
  for (const io::TensorEntry& entry : file.entries()) {
    const auto module = adapters::copied_module(entry.name);
    if (!module) continue;
    const WeightFolder model(adapted.weights);
    const std::string weight = *module + ".weight";
    const std::string twin = models::explain_unmapped_tensor(adapted, weight).value_or("");
    const at::Tensor own = read_weight(model, twin.empty() ? weight : twin);
    const at::Tensor copy = at::empty(entry.shape, tensor_type(entry, path));
    file.read(entry, 0, writable_bytes_of(copy));
    const at::ScalarType narrower =
        own.element_size() < copy.element_size() ? own.scalar_type() : copy.scalar_type();
    if (own.sizes() == copy.sizes() && own.to(narrower).equal(copy.to(narrower))) continue;
    throw ConfigError(
        fmt::format("{}: tensor \"{}\" is not {} of {}: the adapter belongs to another model, or "
                    "to one with a different vocabulary; give the model that it was trained with",
                    path.string(), entry.name, weight, adapted.weights.string()));
  }
}

// Returns the tensor of the adapter's file that is a copy of the table that embedding and head
// share; "" if there is none.
std::string copy_of_table(const models::ModelSpecification& adapted,
                          const io::SafetensorsReader& file) {
  constexpr const char* kTable = "token_embedding.weight";
  const bool has_table = std::ranges::count(adapted.adapter->trained, kTable) > 0;
  if (!has_table || !adapted.transformer.tied_head) return "";
  models::ModelSpecification untied = adapted;
  untied.adapter->trained = {"head.weight"};
  const std::string copy = models::slice_in_files(untied, "head.weight").name;
  if (!file.find(copy)) return "";
  const std::string table = models::slice_in_files(adapted, kTable).name;
  const auto read = [&](const std::string& name) {
    const io::TensorEntry& entry = *file.find(name);
    std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes()));
    file.read(entry, 0, bytes);
    return bytes;
  };
  if (file.find(table) && read(table) != read(copy)) {
    throw ConfigError(fmt::format(
        "{}: \"{}\" and \"{}\" differ, but in the model they are one table (tie_word_embeddings = "
        "true); merge the adapter with peft, or train it with ensure_weight_tying=True",
        file.path().string(), table, copy));
  }
  return copy;
}

}  // namespace

void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const UnchunkedParameters& apart, const std::function<void()>& on_lookup,
                const ChangedWeights& changed) {
  const auto slice_of = [&](const std::string& name) {
    if (on_lookup) on_lookup();
    return models::slice_in_model(specification, name);
  };
  auto [of_model, of_adapter] = adapters::split_parameters(chunks.parameters());
  const auto& adapter = specification.adapter;
  const bool from_folder = adapter && !adapter->weights.empty();
  // Parameters that are trained without LoRA begin with the model's weights.
  if (adapter && !from_folder) {
    std::ranges::copy_if(of_adapter, std::back_inserter(of_model),
                         [&](const nn::ParameterHandle& parameter) {
                           return std::ranges::count(adapter->trained, parameter->name) > 0;
                         });
  }
  std::erase_if(of_model, [&](const nn::ParameterHandle& parameter) {
    return std::ranges::count(specification.newly_initialized, parameter->name) > 0;
  });
  read_weights(
      specification.weights, of_model, chunks, slice_of,
      [&](const std::string& name) { return models::explain_unmapped_tensor(specification, name); },
      apart, changed);
  if (from_folder) read_adapter(specification, of_adapter, chunks);
}

void read_adapter(const models::ModelSpecification& adapted, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks) {
  const std::filesystem::path file = adapted.adapter->weights / adapters::kWeightsFile;
  check_copies(adapted, file);
  const std::string copy = copy_of_table(adapted, io::SafetensorsReader(file));
  read_weights_of_file(
      file, parameters, chunks,
      [&](const std::string& name) { return models::slice_in_files(adapted, name); },
      [&](const std::string& tensor) {
        return tensor == copy || adapters::copied_module(tensor).has_value();
      });
}

}  // namespace colossal::checkpoint
