#include "colossal/checkpoint/file_plan.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/checkpoint/saved_values.h"
#include "colossal/checkpoint/tensor_bytes.h"

namespace colossal::checkpoint {
namespace {

// transformers refuses files without this field.
const io::SafetensorsMetadata kMetadata{{"format", "pt"}};

// Fills the files of weights one after another.
class WeightShards {
 public:
  explicit WeightShards(const WeightFiles& weights) : weights_(weights) {}

  void add(const io::TensorSpec& tensor) {
    const int64_t bytes = c10::multiply_integers(tensor.shape) * io::scalar_type_bytes(tensor.type);
    if (filled_ > 0 && filled_ + bytes > weights_.max_file_bytes && !weights_.only_adapter) {
      shards_.emplace_back();
      filled_ = 0;
    }
    filled_ += bytes;
    shards_.back().push_back(tensor);
  }
  std::vector<std::vector<io::TensorSpec>> take() { return std::move(shards_); }

 private:
  const WeightFiles& weights_;
  std::vector<std::vector<io::TensorSpec>> shards_{1};
  int64_t filled_ = 0;
};

// The row blocks of a tensor have the name and the shape of the whole tensor.
std::vector<std::vector<io::TensorSpec>> weight_shards(const memory::ChunkEngine& chunks,
                                                       const SliceOf& slice_of,
                                                       const WeightFiles& weights,
                                                       const std::vector<io::TensorSpec>& buffers) {
  WeightShards shards(weights);
  std::map<std::string, io::TensorSpec> planned;
  for (const nn::ParameterList& tensor : saved_tensors(chunks, weights)) {
    const SavedValues values = saved_values(*tensor.front(), chunks, slice_of).front();
    const io::ScalarType type = file_type(values.type);
    const std::vector<int64_t> shape = values.slice.tensor_shape(values.shape);
    for (const std::string& name : values.slice.names()) {
      const auto [found, is_new] = planned.try_emplace(name, io::TensorSpec{name, type, shape});
      COLOSSAL_CHECK(found->second.type == type && found->second.shape == shape,
                     "parameters of {} of several types, or shapes [{}] and [{}]", name,
                     fmt::join(found->second.shape, ", "), fmt::join(shape, ", "));
      if (is_new) shards.add(found->second);  // else planned with another parameter of the tensor
    }
  }
  for (const io::TensorSpec& buffer : buffers) shards.add(buffer);
  return shards.take();
}

std::vector<io::TensorSpec> state_tensors(const memory::ChunkEngine& chunks,
                                          const SliceOf& slice_of, const WeightFiles& weights) {
  std::vector<io::TensorSpec> tensors;
  const auto add = [&](const SavedValues& values) {
    tensors.push_back({values.slice.name, file_type(values.type), values.shape});
  };
  for (const nn::ParameterList& tensor : saved_tensors(chunks, weights)) {
    const std::vector<SavedValues> values = saved_values(*tensor.front(), chunks, slice_of);
    std::for_each(values.begin() + 1, values.end(), add);  // the first are the weights
    for (const SavedValues& state : saved_whole_states(*tensor.front(), chunks)) add(state);
  }
  return tensors;
}

}  // namespace

FilePlan::FilePlan(const memory::ChunkEngine& chunks, const SliceOf& slice_of,
                   const WeightFiles& weights, const std::vector<io::TensorSpec>& buffers) {
  const auto shards = weight_shards(chunks, slice_of, weights, buffers);
  weight_files_ = shards.size();
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string number =
        weights.only_adapter ? "" : fmt::format("-{:05}-of-{:05}", shard + 1, shards.size());
    const std::string name = fmt::format("{}{}.safetensors", weights.name, number);
    add(name, shards[shard]);
    for (const io::TensorEntry& entry : files_.back().plan.entries) weight_bytes_ += entry.bytes();
  }
  add(kOptimizerFile, state_tensors(chunks, slice_of, weights));
}

void FilePlan::add(const std::string& name, const std::vector<io::TensorSpec>& tensors) {
  files_.push_back({name, io::plan_safetensors(tensors, kMetadata)});
  const std::vector<io::TensorEntry>& entries = files_.back().plan.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    places_.emplace(entries[i].name, Place{files_.size() - 1, i, places_.size()});
  }
}

const FilePlan::Place& FilePlan::place_of(const std::string& tensor) const {
  const auto found = places_.find(tensor);
  COLOSSAL_CHECK(found != places_.end(), "no tensor {} in the plan", tensor);
  return found->second;
}

FilePlan::Position FilePlan::find(const std::string& tensor, int64_t begin) const {
  const Place& place = place_of(tensor);
  const PlannedFile& file = files_[place.file];
  const io::TensorEntry& entry = file.plan.entries[place.entry];
  return {&file.name, file.plan.position(entry) + begin * io::scalar_type_bytes(entry.type)};
}

FilePlan::PlannedTensor FilePlan::tensor(const std::string& name) const {
  const Place& place = place_of(name);
  return {&files_[place.file].plan.entries[place.entry], place.number};
}

int64_t FilePlan::bytes() const {
  int64_t bytes = 0;
  for (const PlannedFile& file : files_) bytes += file.plan.file_bytes;
  return bytes;
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
