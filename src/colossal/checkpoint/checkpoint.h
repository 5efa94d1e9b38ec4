// Checkpoints. A checkpoint is a Hugging Face folder that `transformers` opens unchanged, with the
// training state in a subfolder. The state is stored in global coordinates, so any layout can load
// a checkpoint of any other layout.
//
//   step-000100/
//     config.json, tokenizer files, model-0000I-of-0000N.safetensors, model.safetensors.index.json
//     training_state/optimizer.safetensors   "master.NAME" (where it is not the weight itself) and
//                                            "STATE.NAME" for each of the optimizer's states
//     training_state/state.json              run, step, counts, random-number and data position ...
//     manifest.json                          sizes and checksums, written last
//
// If most of a model is frozen, for example with adapters, only the trained parameters are written,
// to one file: see WeightFiles.
//
// Each rank writes, and reads, only the byte ranges that it owns.
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
  nlohmann::json model_fields;  // the fields of model_config that must match on load
  WeightFiles weight_files{};
  SliceOf slice_in_files;                                  // where the files store a parameter
  std::vector<std::pair<std::string, std::string>> files;  // other files: name, content
  nlohmann::json state;                                    // state.json
};

// A save of DIRECTORY/step-NNNNNN in the background, while the ranks train. The save copies no
// tensor: forward and backward passes do not change weights and optimizer state, so only the next
// update waits, until this rank's tensors are written to the files. Training continues during the
// sync to disk and the publishing of the folder. At the end, checkpoints that this one replaces are
// removed.
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

  // Returns when this rank's tensors may change.
  void wait_until_read();
  bool done() const;
  // Waits for the end of the save and returns the path of the checkpoint. If any rank failed, all
  // ranks throw the same IoError; the failed checkpoint is removed, and older checkpoints are
  // intact. A weight that is not finite is such a failure, so no checkpoint contains one.
  std::filesystem::path finish();

 private:
  std::filesystem::path run();
  void release();  // called when this rank's tensors may change

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

// Loads weights, masters, optimizer states and counts into `chunks`; each rank reads only its
// shards. Returns state.json. Throws ConfigError if the checkpoint has another model (the message
// names the fields that differ) or another optimizer; throws IoError if a weight is not finite.
nlohmann::json load(const std::filesystem::path& checkpoint, memory::ChunkEngine& chunks,
                    const Description& description);

}  // namespace colossal::checkpoint
