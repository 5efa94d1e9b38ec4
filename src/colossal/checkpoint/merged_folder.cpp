#include "colossal/checkpoint/merged_folder.h"

#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <map>

#include "colossal/base/error.h"
#include "colossal/checkpoint/adapter_merge.h"
#include "colossal/checkpoint/new_path.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/io/file.h"

namespace colossal::checkpoint {
namespace {

// By the name that a tensor has in the folder: the weight's full name in the model's files.
using AdaptedWeights = std::map<std::string, std::string>;

AdaptedWeights find_adapted(const WeightFolder& directory,
                            const models::ModelSpecification& specification) {
  AdaptedWeights adapted;
  for (const adapters::Product& product : specification.adapter->products) {
    const std::vector<std::string> weights =
        product.is_of_experts()
            ? models::slice_in_model(specification, product.name + ".weight").names()
            : std::vector{product.module + ".weight"};
    for (const std::string& weight : weights) {
      adapted.emplace(find_weight(directory, weight).entry->name, weight);
    }
  }
  for (const std::string& parameter : specification.adapter->trained) {
    for (const std::string& tensor : models::slice_in_model(specification, parameter).names()) {
      adapted.emplace(find_weight(directory, tensor).entry->name, tensor);
    }
  }
  return adapted;
}

at::Tensor merge_tensor(const io::SafetensorsReader& file, const io::TensorEntry& entry,
                        const std::string& weight, const AdapterMerge& merge) {
  const at::Tensor values = at::empty(entry.shape, tensor_type(entry, file.path()));
  file.read(entry, 0, writable_bytes_of(values));
  at::Tensor merged = merge.merged(weight, values);
  if (!at::isfinite(merged).all().item<bool>()) {
    throw ConfigError(
        fmt::format("{}: tensor \"{}\" with the adapter has a number that is not finite in {}",
                    file.path().string(), entry.name, io::scalar_type_name(entry.type)));
  }
  return merged;
}

void write_merged_file(const io::SafetensorsReader& from, const AdaptedWeights& adapted,
                       const AdapterMerge& merge, const std::filesystem::path& path) {
  std::vector<io::TensorSpec> specs;
  for (const io::TensorEntry& entry : from.entries()) {
    specs.push_back({entry.name, entry.type, entry.shape});
  }
  const io::SafetensorsPlan plan = io::plan_safetensors(specs, from.metadata());
  io::File to = io::File::create(path);
  to.reserve(plan.file_bytes);
  to.write_at(std::as_bytes(std::span(plan.header)), 0);
  for (const io::TensorEntry& entry : plan.entries) {
    const io::TensorEntry& source = *from.find(entry.name);
    if (const auto found = adapted.find(entry.name); found != adapted.end()) {
      const at::Tensor merged = merge_tensor(from, source, found->second, merge);
      to.write_at(bytes_of(merged), plan.position(entry));
    } else {
      std::vector<std::byte> bytes(static_cast<size_t>(source.bytes()));
      from.read(source, 0, bytes);
      to.write_at(bytes, plan.position(entry));
    }
  }
  to.sync();
}

}  // namespace

void write_merged_folder(const models::ModelSpecification& specification,
                         const std::filesystem::path& folder,
                         const std::vector<std::pair<std::string, std::string>>& files) {
  require_new(folder);
  const WeightFolder directory(specification.weights);
  directory.require_numbers("merge an adapter into");
  const AdaptedWeights adapted = find_adapted(directory, specification);
  const AdapterMerge merge(specification);
  write_whole(folder, [&](const std::filesystem::path& temporary) {
    io::make_folders(temporary);
    for (const auto& [name, content] : files) {
      io::write_file_atomically(temporary / name, content);
    }
    for (const char* name : {"config.json", "model.safetensors.index.json"}) {
      if (!io::path_exists(directory.path() / name)) continue;
      io::write_file_atomically(temporary / name, io::read_file(directory.path() / name));
    }
    for (const auto& file : directory.files()) {
      write_merged_file(*file, adapted, merge, temporary / file->path().filename());
    }
  });
}

}  // namespace colossal::checkpoint
