// Checkpoints: a Hugging Face folder that `transformers` opens as it stands, beside it the training
// state with global coordinates, so that any layout can load what any other saved.
//
//   step-000100/
//     config.json, tokenizer files, model-0000I-of-0000N.safetensors, model.safetensors.index.json
//     training_state/optimizer.safetensors   "master.NAME" (where it is not the weight itself) and
//                                            "STATE.NAME" for each of the optimizer's states
//     training_state/state.json              run, step, counts, random-number and data position ...
//     manifest.json                          sizes and checksums, written last
//
// Where most of a model is frozen, as beside adapters, only what is trained is written, to one
// file: see WeightFiles.
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

// What a checkpoint holds besides tensors.
struct Description {
  nlohmann::json model_config;  // config.json, or what the weights' folder has for it
  nlohmann::json model_fields;  // the fields of model_config that say which model it is
  WeightFiles weight_files{};
  SliceOf slice_in_files;                                  // of a parameter's weights
  std::vector<std::pair<std::string, std::string>> files;  // tokenizer: name, content
  nlohmann::json state;                                    // state.json
};

// A save of DIRECTORY/step-NNNNNN that goes on while the ranks train. It copies no tensor: forward
// and backward leave weights and state as they are, so only the next update waits, until this
// rank's tensors are in the files. Syncing and publishing go on meanwhile. At the end the
// checkpoints that this one replaces are removed.
//
// All ranks start and finish the same saves, one after the other. `folder`, `chunks` and `context`
// must outlive the save, and nothing else may use `folder` until it has finished.
class Save {
 public:
  Save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
       const ParallelContext& context, Description description);
  ~Save();  // waits for the end
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  // Returns when this rank's tensors may change.
  void wait_until_read();
  bool done() const;
  // Waits for the end and gives the checkpoint's path. Throws the same IoError on all ranks when
  // any of them failed: nothing of it is left then, older ones are intact. Weights that are not
  // finite are such a failure: no checkpoint holds any.
  std::filesystem::path finish();

 private:
  std::filesystem::path run();
  void release();  // this rank's tensors may change

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

// Starts a save and finishes it.
std::filesystem::path save(RunFolder& folder, int64_t step, const memory::ChunkEngine& chunks,
                           const ParallelContext& context, const Description& description);

// state.json of a checkpoint.
nlohmann::json read_state(const std::filesystem::path& checkpoint);

// Loads weights, masters, moments and counts into `chunks`, each rank for itself; returns
// state.json. Throws ConfigError when the checkpoint is of another model (naming the fields that
// differ) or another optimizer, IoError where a weight is not finite.
nlohmann::json load(const std::filesystem::path& checkpoint, memory::ChunkEngine& chunks,
                    const Description& description);

}  // namespace colossal::checkpoint
