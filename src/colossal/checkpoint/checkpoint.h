// Saves and loads checkpoints of a run. A checkpoint is a Hugging Face folder that `transformers`
// opens unchanged, with the training state in a subfolder. Files hold whole tensors, not shards, so
// a run with any layout can load a checkpoint of a run with any other layout.
//
//   step-000100/
//     config.json, tokenizer files, model-0000I-of-0000N.safetensors, model.safetensors.index.json
//     training_state/optimizer.safetensors   for each trained parameter NAME: its master
//                                            "master.NAME", if masters and working weights differ
//                                            in dtype, and "STATE.NAME" for each optimizer state
//     training_state/state.json              id of the run, step, update counts, seed, data ...
//     manifest.json                          sizes and checksums, written last
//
// If a run trains an adapter, a checkpoint has only the adapter's weights, in one file
// (WeightFiles).
//
// All ranks write to the same files, each rank some byte ranges. Each rank reads only the byte
// ranges of its shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "colossal/checkpoint/buffers.h"
#include "colossal/checkpoint/file_plan.h"
#include "colossal/checkpoint/run_folder.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::checkpoint {

// The contents of a checkpoint except its tensors.
struct Description {
  nlohmann::json model_config;  // contents of the file WeightFiles::config
  // Names and values of fields of model_config. load() rejects a checkpoint in whose config one of
  // these fields is missing or has another value. It does not compare fields whose names end with
  // "dropout" or "_pdrop".
  nlohmann::json model_fields;
  WeightFiles weight_files{};  // which weights the checkpoint has, and the names of their files
  // Returns, for a parameter's name, the tensor (and the part of it) that stores the parameter in
  // the files of weights.
  SliceOf slice_in_files;
  Buffers buffers{};  // those of the model; they may not change during a save
  std::vector<std::pair<std::string, std::string>> files;  // name and content of other files
  // Contents of state.json, to which Save adds step, run, optimizer and update counts.
  nlohmann::json state;
};

// A save of a checkpoint that runs in the background while the ranks train. Before the next update,
// the caller must call wait_until_read(). The save copies no tensors, because forward and backward
// passes do not change weights and optimizer states. wait_until_read() returns when the save has
// read this rank's tensors and written them to the files. Updates may then go on while the save
// syncs the files to disk and gives the folder its final name. At the end, the save removes old
// checkpoints (RunFolder::add_saved()). The background thread communicates over
// context.background_group() only.
//
// All ranks must start and finish the same saves, one after another. `folder`, `chunks` and
// `context` must outlive the Save. Nothing else may use `folder` until finish() has returned.
class Save {
 public:
  // Starts to save the checkpoint folder.directory()/step-NNNNNN. Collective.
  Save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
       const ParallelContext& context, Description description);
  ~Save();  // waits for the end of the save
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  // Waits until the save has read this rank's tensors or has failed. The tensors may change
  // afterwards.
  void wait_until_read();
  // Returns whether the save has ended, with or without success, so that finish() does not wait.
  // Not to be called after finish().
  bool done() const;
  // Waits for the end of the save and returns the path of the checkpoint. Call it at most once. If
  // a rank failed, all ranks throw the same IoError or ConfigError; the new checkpoint is then
  // removed, and older checkpoints are intact. A weight or master that is not finite is a failure,
  // so checkpoints have only finite weights.
  std::filesystem::path finish();

 private:
  std::filesystem::path run();  // the work in the background
  void release();               // lets wait_until_read() return

  RunFolder& folder_;
  std::filesystem::path path_;
  const memory::ChunkEngine& chunks_;
  const comm::Group& group_;
  Description description_;
  std::once_flag released_;
  std::promise<void> read_;
  std::shared_future<void> all_read_;
  std::future<std::filesystem::path> end_;
};

// Returns the bytes of a checkpoint without its manifest.
int64_t bytes_of(const memory::ChunkEngine& chunks, const Description& description);

// Saves a checkpoint, waits for the end of the save, and returns the path of the checkpoint.
// Collective. Throws as Save::finish() does.
std::filesystem::path save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
                           const ParallelContext& context, const Description& description);

// Returns the contents of state.json of a checkpoint. Throws IoError if it cannot be read.
nlohmann::json read_state(const std::filesystem::path& checkpoint);

// Loads weights, masters, optimizer states and update counts of a checkpoint into `chunks`; each
// rank reads only its shards. Of `description`, uses only model_fields, weight_files and
// slice_in_files. If description.weight_files.only_adapter is true, parameters that are not the
// adapter's keep their values. Returns the contents of state.json. Does not communicate:
// loading packed weights would be collective, but a checkpoint has none, as only the base model of
// an adapter may be packed. Throws ConfigError if the checkpoint is of another model or another
// optimizer, and IoError if a weight is not finite or a file cannot be read.
nlohmann::json load(const std::filesystem::path& checkpoint, memory::ChunkEngine& chunks,
                    const Description& description);

}  // namespace colossal::checkpoint
