#include "colossal/checkpoint/merged_folder.h"

#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "colossal/base/error.h"
#include "colossal/checkpoint/adapter_merge.h"
#include "colossal/checkpoint/new_path.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/io/file.h"

namespace colossal::checkpoint {
namespace {

constexpr const char* kIndexFile = "model.safetensors.index.json";

// How the model gets another head: one for scores instead of that for tokens, or a table of its own
// instead of the one that it shares with the embedding.
struct ChangedHead {
  std::string file;                                         // gets the new head
  std::vector<std::string> added;                           // tensors of the new head; empty: none
  std::set<std::string> dropped;                            // tensors of the old head
  std::string table;                                        // shared so far; empty: none was
  nlohmann::json config_fields = nlohmann::json::object();  // changed fields of config.json
};

// An adapter of the embedding or of the head alone parts the table that they share.
ChangedHead part_tables(const WeightFolder& directory,
                        const models::ModelSpecification& specification) {
  ChangedHead head{.file = directory.files().back()->path().filename()};
  const std::string table = models::slice_in_model(specification, "token_embedding.weight").name;
  head.table = find_weight(directory, table).entry->name;
  head.added = {models::slice_in_model(specification, "head.weight").name};
  head.config_fields["tie_word_embeddings"] = false;
  return head;
}

ChangedHead find_changed_head(const WeightFolder& directory,
                              const models::ModelSpecification& specification) {
  const bool parts = specification.transformer.tied_head && specification.facts.is_decoder() &&
                     std::ranges::any_of(specification.adapter->products, [](const auto& product) {
                       return !product.is_of_blocks();
                     });
  if (parts) return part_tables(directory, specification);
  if (specification.transformer.scores == 0) return {};
  ChangedHead head{.file = directory.files().back()->path().filename()};
  for (const std::string& parameter : specification.adapter->trained) {
    const std::string tensor = models::slice_in_model(specification, parameter).name;
    if (models::is_of_head(parameter) && !directory.contains(tensor)) head.added.push_back(tensor);
  }
  if (head.added.empty()) return {};
  head.dropped = models::tensors_of_token_head(specification);
  head.config_fields["architectures"] = specification.config.at("architectures");
  for (const char* labels : {"id2label", "label2id"}) {
    head.config_fields[labels] = specification.other_fields.at(labels);
  }
  return head;
}

// By the name of a tensor in the folder: the adapted weight's full name in the model's files.
using AdaptedWeights = std::map<std::string, std::string>;

AdaptedWeights find_adapted(const WeightFolder& directory,
                            const models::ModelSpecification& specification,
                            const ChangedHead& head) {
  AdaptedWeights adapted;
  for (const adapters::Product& product : specification.adapter->products) {
    if (std::ranges::count(head.added, product.module + ".weight") > 0) continue;
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
      if (std::ranges::count(head.added, tensor) > 0) continue;
      adapted.emplace(find_weight(directory, tensor).entry->name, tensor);
    }
  }
  return adapted;
}

// weight: the name for which the adapter is merged.
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

void write_merged_file(const WeightFolder& directory, const io::SafetensorsReader& from,
                       const AdaptedWeights& adapted, const AdapterMerge& merge,
                       const ChangedHead& head, const std::filesystem::path& path) {
  std::vector<io::TensorSpec> specs;
  for (const io::TensorEntry& entry : from.entries()) {
    if (head.dropped.contains(entry.name)) continue;
    specs.push_back({entry.name, entry.type, entry.shape});
    const auto found = adapted.find(entry.name);
    if (found == adapted.end()) continue;
    const at::Tensor whole = merge.replacement(found->second);
    if (whole.defined()) specs.back().shape = whole.sizes().vec();  // a table may have grown
  }
  std::map<std::string, at::Tensor> added;
  if (head.file == path.filename()) {
    const io::TensorEntry& any = from.entries().front();
    for (const std::string& tensor : head.added) {
      io::ScalarType type = any.type;
      at::Tensor values;
      if (head.table.empty()) {
        values = merge.replacement(tensor).to(tensor_type(any, from.path()));
      } else {
        const auto [file, entry] = find_weight(directory, head.table);
        values = merge_tensor(*file, *entry, tensor, merge);
        type = entry->type;
      }
      specs.push_back({tensor, type, values.sizes().vec()});
      added.emplace(tensor, values);
    }
  }
  const io::SafetensorsPlan plan = io::plan_safetensors(specs, from.metadata());
  io::File to = io::File::create(path);
  to.reserve(plan.file_bytes);
  to.write_at(std::as_bytes(std::span(plan.header)), 0);
  for (const io::TensorEntry& entry : plan.entries) {
    if (const auto found = added.find(entry.name); found != added.end()) {
      to.write_at(bytes_of(found->second), plan.position(entry));
      continue;
    }
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

// Returns the merged folder's config.json or index, given the text of the source's.
std::string with_changes(const std::string& name, const std::string& text, const ChangedHead& head,
                         const nlohmann::json& changed_config) {
  const bool keeps_config = name == kIndexFile || changed_config.empty();
  if (head.added.empty() && head.config_fields.empty() && keeps_config) return text;
  nlohmann::json json = nlohmann::json::parse(text);
  if (name != kIndexFile) {
    json.update(changed_config);
    json.update(head.config_fields);
    // The score is that of the last token which is not padding, so the padding token must be known.
    if (head.config_fields.contains("architectures")) {
      nlohmann::json& padding = json["pad_token_id"];
      if (padding.is_null()) padding = json.value("eos_token_id", nlohmann::json());
    }
  } else {
    for (const std::string& tensor : head.dropped) json.at("weight_map").erase(tensor);
    for (const std::string& tensor : head.added) json["weight_map"][tensor] = head.file;
    json["metadata"].erase("total_size");
  }
  return json.dump(2) + "\n";
}

}  // namespace

void write_merged_folder(const models::ModelSpecification& specification,
                         const std::filesystem::path& folder,
                         const std::vector<std::pair<std::string, std::string>>& files,
                         const nlohmann::json& changed_config) {
  require_new(folder);
  const WeightFolder directory(specification.weights);
  directory.require_unquantized("merge an adapter into");
  const AdapterMerge merge(specification);
  ChangedHead head = find_changed_head(directory, specification);
  const std::string table = models::slice_in_model(specification, "token_embedding.weight").name;
  if (merge.replacement(table).defined()) {
    head.config_fields["vocab_size"] = specification.transformer.vocabulary;
  }
  const AdaptedWeights adapted = find_adapted(directory, specification, head);
  if (specification.transformer.scores > 0 && !specification.newly_initialized.empty()) {
    throw ConfigError(fmt::format(
        "{}: the adapter is for a model that scores texts (task_type = \"SEQ_CLS\"), but neither "
        "it nor {} has all of the head ({}); merge it into the folder of the model that it was "
        "trained "
        "with",
        specification.adapter->weights.string(), directory.path().string(),
        fmt::join(specification.newly_initialized, ", ")));
  }
  write_whole(folder, [&](const std::filesystem::path& temporary) {
    io::make_folders(temporary);
    for (const auto& [name, content] : files) {
      io::write_file_atomically(temporary / name, content);
    }
    for (const char* name : {"config.json", kIndexFile}) {
      if (!io::path_exists(directory.path() / name)) continue;
      io::write_file_atomically(
          temporary / name,
          with_changes(name, io::read_file(directory.path() / name), head, changed_config));
    }
    for (const auto& file : directory.files()) {
      write_merged_file(directory, *file, adapted, merge, head,
                        temporary / file->path().filename());
    }
  });
}

}  // namespace colossal::checkpoint
