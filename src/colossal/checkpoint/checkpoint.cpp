#include "colossal/checkpoint/checkpoint.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/checkpoint/all_or_none.h"
#include "colossal/checkpoint/file_plan.h"
#include "colossal/checkpoint/shard_writer.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/json.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::checkpoint {
namespace {

using FileContents = std::vector<std::pair<std::string, std::string>>;

// Returns the names and contents of all files without a rank's shards, except the manifest.
FileContents small_files(const FilePlan& plan, const Description& description) {
  const WeightFiles& weights = description.weight_files;
  FileContents files = description.files;
  files.emplace_back(weights.config, description.model_config.dump(2) + "\n");
  if (!weights.only_adapter) {
    files.emplace_back(weights.name + ".safetensors.index.json", plan.index_json());
  }
  files.emplace_back(kStateFile, description.state.dump(2) + "\n");
  return files;
}

// Rank 0 begins: it creates the folder and every file at its full size, and writes headers and
// small files.
io::DirectoryWriter create(RunFolder& folder, const std::filesystem::path& path,
                           const FilePlan& plan, const Description& description) {
  io::remove_stale_temporaries(folder.directory());
  folder.set_aside_existing(path);
  io::DirectoryWriter writer = io::DirectoryWriter::create(path);
  for (const FilePlan::PlannedFile& file : plan.files()) {
    writer.create_file(file.name, file.plan.file_bytes);
    writer.write(file.name, 0, std::as_bytes(std::span(file.plan.header)));
  }
  for (const auto& [name, content] : small_files(plan, description)) {
    writer.write_file(name, content);
  }
  write_buffers(writer, plan, description.buffers);
  return writer;
}

void check_model(const std::filesystem::path& checkpoint, const Description& description) {
  const std::string& config = description.weight_files.config;
  std::error_code ignored;
  if (!std::filesystem::exists(checkpoint / config, ignored)) {
    throw ConfigError(fmt::format(
        "{} has no {}: it is a checkpoint of a run that trains {}; use another "
        "checkpoint.directory",
        checkpoint.string(), config,
        description.weight_files.only_adapter ? "the whole model, not an adapter" : "an adapter"));
  }
  const nlohmann::json found = io::read_json(checkpoint / config);
  const nlohmann::json& wanted = description.model_fields;
  std::string differences;
  for (const auto& [field, value] : wanted.items()) {
    // Dropout does not change the weights.
    if (field.ends_with("_pdrop") || field.ends_with("dropout")) continue;
    const nlohmann::json other = found.value(field, nlohmann::json());
    if (other == value) continue;
    differences += fmt::format("{}{} = {} here, {} there", differences.empty() ? "" : "; ", field,
                               value.dump(), other.dump());
  }
  if (!differences.empty()) {
    throw ConfigError(
        fmt::format("{} is a checkpoint of another model ({}); use another checkpoint.directory",
                    checkpoint.string(), differences));
  }
}

// Loads masters if the checkpoint has them: working weights are rounded from these. Frozen weights
// that the checkpoint does not have stay as they are.
void load_values(const std::filesystem::path& checkpoint, const io::SafetensorsReader& states,
                 memory::ChunkEngine& chunks, const Description& description) {
  const WeightFiles& files = description.weight_files;
  nn::ParameterList without_master;
  for (const nn::ParameterHandle& parameter : chunks.parameters()) {
    if (files.only_adapter && !parameter->of_adapter) continue;
    const io::TensorEntry* entry = states.find(FilePlan::master_name(parameter->name));
    if (!entry) {
      without_master.push_back(parameter);
      continue;
    }
    read_weights_of_tensor(*stored_tensor(states, *entry), *parameter, {entry->name},
                           chunks.kept_weights(*parameter), chunks);
  }
  if (!files.only_adapter) {
    const auto spare = [&](const std::string& name) -> std::optional<std::string> {
      const auto is_named = [&](const auto& buffer) { return buffer.first == name; };
      if (std::ranges::any_of(description.buffers, is_named)) return "";
      return std::nullopt;
    };
    read_weights(checkpoint, without_master, chunks, description.slice_in_files, spare);
  } else if (!without_master.empty()) {
    read_weights_of_file(checkpoint / (files.name + ".safetensors"), without_master, chunks,
                         description.slice_in_files);
  }
}

// Returns the tensor of an optimizer state.
const io::TensorEntry& find_state(const io::SafetensorsReader& states, const std::string& name,
                                  const std::vector<int64_t>& shape) {
  const io::TensorEntry* entry = states.find(name);
  if (entry && entry->shape == shape) return *entry;
  throw ConfigError(
      fmt::format("{}: no tensor \"{}\" of shape [{}]; go on with the optimizer and the "
                  "optimizer.groups of the "
                  "run that wrote it",
                  states.path().string(), name, fmt::join(shape, ", ")));
}

void load_whole_states(const io::SafetensorsReader& states, const nn::Parameter& parameter,
                       memory::ChunkEngine& chunks) {
  const std::vector<optim::WholeState> whole = chunks.whole_state_specs(parameter);
  std::vector<std::unique_ptr<StoredTensor>> tensors;
  for (const optim::WholeState& state : whole) {
    const std::string name = FilePlan::state_name(state.name, parameter.name);
    tensors.push_back(stored_tensor(states, find_state(states, name, state.shape)));
  }
  for (const memory::ChunkEngine::WholeStatePart& part : chunks.whole_state_parts(parameter)) {
    const at::Tensor values = at::empty(part.values.sizes(), tensors[part.state]->type());
    tensors[part.state]->read(part.begin, writable_bytes_of(values));
    part.values.copy_(values);
  }
}

void load_state(const io::SafetensorsReader& states, memory::ChunkEngine& chunks) {
  for (const nn::ParameterHandle& parameter : chunks.parameters()) {
    if (!parameter->trainable) continue;
    const std::vector<std::string> names = chunks.optimizer_of(*parameter)->state_names();
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string name = FilePlan::state_name(names[i], parameter->name);
      const io::TensorEntry* entry = &find_state(states, name, parameter->shape);
      read_tensor(*stored_tensor(states, *entry), *parameter, {entry->name},
                  chunks.kept_state(*parameter), [&](int64_t begin, const at::Tensor& values) {
                    chunks.store_state(*parameter, i, begin, values);
                  });
    }
    load_whole_states(states, *parameter, chunks);
  }
}

}  // namespace

Save::Save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
           const ParallelContext& context, Description description)
    : folder_(folder),
      path_(folder.directory() / io::checkpoint_name(step)),
      chunks_(chunks),
      group_(context.background_group()),
      description_(std::move(description)),
      all_read_(read_.get_future()) {
  // These belong to this step: the next update changes them.
  description_.state["step"] = step;
  description_.state["run"] = folder.run();
  description_.state["optimizer"] = chunks.optimizers().name();
  description_.state["update_counts"] = chunks.update_counts();
  end_ = std::async(std::launch::async, [this] {
    try {
      return run();
    } catch (...) {
      release();  // this save reads no more
      throw;
    }
  });
}

Save::~Save() {
  if (end_.valid()) end_.wait();
}

void Save::wait_until_read() {
  all_read_.wait();
}

bool Save::done() const {
  return end_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::filesystem::path Save::finish() {
  return end_.get();
}

void Save::release() {
  std::call_once(released_, [&] { read_.set_value(); });
}

std::filesystem::path Save::run() {
  const FilePlan plan(chunks_, description_.slice_in_files, description_.weight_files,
                      specs_of(description_.buffers));
  std::optional<io::DirectoryWriter> writer;
  // If any rank fails below, all ranks throw. Rank 0's writer then discards what it made.
  const std::string temporary = on_first_rank(group_, [&] {
    writer.emplace(create(folder_, path_, plan, description_));
    return writer->temporary_path().string();
  });
  // A step of its own: a rank that cannot join must not keep others waiting in the exchanges below.
  all_or_none(group_, [&]() -> std::string {
    if (group_.rank() != 0) writer.emplace(io::DirectoryWriter::join(temporary));
    return "";
  });
  const std::vector<std::string> written = all_or_none(group_, [&] {
    write_shards(*writer, plan, chunks_, description_.slice_in_files, description_.weight_files,
                 group_);
    release();
    writer->sync();
    return writer->written().to_json();
  });
  on_first_rank(group_, [&]() -> std::string {
    io::Manifest manifest;
    for (const std::string& part : written) manifest.add(io::Manifest::parse(part, "a rank"));
    writer->publish(std::move(manifest));
    folder_.add_saved(path_);
    return "";
  });
  return path_;
}

int64_t bytes_of(const memory::ChunkEngine& chunks, const Description& description) {
  const FilePlan plan(chunks, description.slice_in_files, description.weight_files,
                      specs_of(description.buffers));
  int64_t bytes = plan.bytes();
  for (const auto& [name, content] : small_files(plan, description)) bytes += std::ssize(content);
  return bytes;
}

std::filesystem::path save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
                           const ParallelContext& context, const Description& description) {
  return Save(folder, step, chunks, context, description).finish();
}

nlohmann::json read_state(const std::filesystem::path& checkpoint) {
  return io::read_json(checkpoint / kStateFile);
}

nlohmann::json load(const std::filesystem::path& checkpoint, memory::ChunkEngine& chunks,
                    const Description& description) {
  check_model(checkpoint, description);
  nlohmann::json state = read_state(checkpoint);
  if (state.value("optimizer", "") != chunks.optimizers().name()) {
    throw ConfigError(fmt::format(
        "{} was trained with optimizer.name = {}, but this run has \"{}\"", checkpoint.string(),
        state.value("optimizer", nlohmann::json()).dump(), chunks.optimizers().name()));
  }
  const io::SafetensorsReader states(checkpoint / kOptimizerFile);
  load_values(checkpoint, states, chunks, description);
  load_state(states, chunks);
  read_buffers(checkpoint, description.buffers);
  chunks.set_update_counts(state.at("update_counts"));
  return state;
}

}  // namespace colossal::checkpoint
