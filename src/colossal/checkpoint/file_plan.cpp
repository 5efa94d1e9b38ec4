#include "colossal/checkpoint/file_plan.h"

#include <nlohmann/json.hpp>
#include <set>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"

namespace colossal::checkpoint {
namespace {

// transformers refuses files without this field.
const io::SafetensorsMetadata kMetadata{{"format", "pt"}};

std::vector<std::vector<io::TensorSpec>> weight_shards(const memory::ChunkEngine& chunks,
                                                       const SliceOf& slice_of,
                                                       const WeightFiles& weights) {
  const io::ScalarType type = file_type(chunks.options().working);
  std::vector<std::vector<io::TensorSpec>> shards(1);
  std::set<std::string> planned;
  int64_t filled = 0;
  for (const nn::ParameterHandle& parameter : chunks.parameters()) {
    if (!parameter->begins_tensor()) continue;
    if (weights.only_adapter && !parameter->of_adapter) continue;
    const TensorSlice slice = slice_of(parameter->name);
    const std::vector<int64_t> shape = slice.tensor_shape(parameter->shape);
    const int64_t bytes = c10::multiply_integers(shape) * io::scalar_type_bytes(type);
    for (const std::string& name : slice.names()) {
      if (!planned.insert(name).second)
        continue;  // planned already, with another parameter of the same tensor
      if (filled > 0 && filled + bytes > weights.max_file_bytes && !weights.only_adapter) {
        shards.emplace_back();
        filled = 0;
      }
      filled += bytes;
      shards.back().push_back({name, type, shape});
    }
  }
  return shards;
}

std::vector<io::TensorSpec> state_tensors(const memory::ChunkEngine& chunks) {
  const memory::ChunkOptions& options = chunks.options();
  const io::ScalarType type = file_type(options.master);
  std::vector<io::TensorSpec> tensors;
  for (const nn::ParameterHandle& parameter : chunks.parameters()) {
    if (!parameter->trainable || !parameter->begins_tensor()) continue;
    if (options.master != options.working) {
      tensors.push_back({FilePlan::master_name(parameter->name), type, parameter->shape});
    }
    for (const std::string& state : chunks.optimizer_of(*parameter)->state_names()) {
      tensors.push_back({FilePlan::state_name(state, parameter->name), type, parameter->shape});
    }
    for (const optim::WholeState& state : chunks.whole_state_specs(*parameter)) {
      tensors.push_back({FilePlan::state_name(state.name, parameter->name), type, state.shape});
    }
  }
  return tensors;
}

}  // namespace

FilePlan::FilePlan(const memory::ChunkEngine& chunks, const SliceOf& slice_of,
                   const WeightFiles& weights) {
  const auto shards = weight_shards(chunks, slice_of, weights);
  weight_files_ = shards.size();
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string number =
        weights.only_adapter ? "" : fmt::format("-{:05}-of-{:05}", shard + 1, shards.size());
    const std::string name = fmt::format("{}{}.safetensors", weights.name, number);
    add(name, shards[shard]);
    for (const io::TensorEntry& entry : files_.back().plan.entries) weight_bytes_ += entry.bytes();
  }
  add(kOptimizerFile, state_tensors(chunks));
}

void FilePlan::add(const std::string& name, const std::vector<io::TensorSpec>& tensors) {
  files_.push_back({name, io::plan_safetensors(tensors, kMetadata)});
  const std::vector<io::TensorEntry>& entries = files_.back().plan.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    places_.emplace(entries[i].name, Place{files_.size() - 1, i});
  }
}

FilePlan::Position FilePlan::find(const std::string& tensor, int64_t begin) const {
  const auto found = places_.find(tensor);
  COLOSSAL_CHECK(found != places_.end(), "no tensor {} in the plan", tensor);
  const PlannedFile& file = files_[found->second.file];
  const io::TensorEntry& entry = file.plan.entries[found->second.entry];
  return {&file.name, file.plan.position(entry) + begin * io::scalar_type_bytes(entry.type)};
}

std::string FilePlan::index_json() const {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (size_t i = 0; i < weight_files_; ++i) {
    for (const io::TensorEntry& entry : files_[i].plan.entries) map[entry.name] = files_[i].name;
  }
  return nlohmann::ordered_json{{"metadata", {{"total_size", weight_bytes_}}}, {"weight_map", map}}
      .dump(2);
}

}  // namespace colossal::checkpoint
