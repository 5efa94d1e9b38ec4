// Checkpoints. A checkpoint is a Hugging Face folder that `transformers` opens unchanged, with the
// training state in a subfolder. The state is stored in global coordinates, so any layout can load
// a checkpoint of any other layout.
//
//   step-000100/
//     config.json, tokenizer files, model-0000I-of-0000N.safetensors, model.safetensors.index.json
//     training_state/optimizer.safetensors   "master.NAME" (where it is not the weight itself) and
//                                            "STATE.NAME" for each of the optimizer's states
//     training_state/state.json              id of the run, step, update counts, seed, data ...
//     manifest.json                          sizes and checksums, written last
//
// If a run trains an adapter, only the adapter's parameters are written, to one file: see
// WeightFiles.
//
// All ranks write to the same files: each rank only some byte ranges. Each rank reads only the byte
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

#include "colossal/checkpoint/file_plan.h"
#include "colossal/checkpoint/run_folder.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::checkpoint {

// The contents of a checkpoint besides its tensors.
struct Description {
  nlohmann::json model_config;  // contents of the file WeightFiles::config
  // The fields of model_config that load() compares: a checkpoint with other values is another
  // model. Dropout is ignored.
  nlohmann::json model_fields;
  WeightFiles weight_files{};
  SliceOf slice_in_files;                                  // where the files store a parameter
  std::vector<std::pair<std::string, std::string>> files;  // other files: name, content
  nlohmann::json state;                                    // state.json
};

// Saves a checkpoint as DIRECTORY/step-NNNNNN in the background, while the ranks train. The save
// needs no copy of the tensors in memory, because forward and backward passes do not change weights
// and optimizer state. Only the next update must wait until this rank's tensors are written to the
// files. Training continues while the files are synced to disk and the folder gets its final name.
// At the end, older checkpoints that need not be kept are removed (RunFolder).
//
// All ranks must start and finish the same saves, one after another. `folder`, `chunks` and
// `context` must outlive the save, and nothing else may use `folder` until the save has finished.
class Save {
 public:
  Save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
       const ParallelContext& context, Description description);
  ~Save();  // waits for the end of the save
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  // Returns once the save has read this rank's tensors, or has failed: they may change from then
  // on.
  void wait_until_read();
  bool done() const;  // whether finish() would return at once
  // Waits for the end of the save and returns the path of the checkpoint. Call at most once. If any
  // rank failed, all ranks throw the same IoError; the failed checkpoint is removed, and older
  // checkpoints are intact. A weight or master that is not finite is such a failure, so no
  // checkpoint contains one.
  std::filesystem::path finish();

 private:
  std::filesystem::path run();
  void release();  // lets wait_until_read() return

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

// Starts a save and waits for its end.
std::filesystem::path save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
                           const ParallelContext& context, const Description& description);

// Reads state.json of a checkpoint.
nlohmann::json read_state(const std::filesystem::path& checkpoint);

// Loads weights, masters, optimizer states and update counts into `chunks`; each rank reads only
// its shards. With WeightFiles::only_adapter, all other parameters stay as they are. Returns the
// contents of state.json. Throws ConfigError if the checkpoint has another model (the message names
// the fields that differ) or another optimizer; throws IoError if a weight is not finite.
nlohmann::json load(const std::filesystem::path& checkpoint, memory::ChunkEngine& chunks,
                    const Description& description);

}  // namespace colossal::checkpoint
