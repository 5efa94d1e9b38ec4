// Checkpoints: a Hugging Face folder that `transformers` opens as it stands, beside it the training
// state with global coordinates, so that any layout can load what any other saved.
//
//   step-000100/
//     config.json, tokenizer files, model-0000I-of-0000N.safetensors, model.safetensors.index.json
//     training_state/optimizer.safetensors   "master.NAME" (where it is not the weight itself) and
//                                            "STATE.NAME" for each of the optimizer's states
//     training_state/state.json              step, counts, random-number and data position ...
//     manifest.json                          sizes and checksums, written last
//
// Each rank writes, and reads, only the byte ranges that it owns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::checkpoint {

// What a checkpoint holds beside tensors.
struct Description {
  nlohmann::json model_config;                             // config.json
  NameOf hugging_face_name;                                // of a parameter
  std::vector<std::pair<std::string, std::string>> files;  // tokenizer: name, content
  nlohmann::json state;                                    // state.json
};

// Saves as DIRECTORY/step-NNNNNN and keeps the newest `keep`. Collective over all ranks; throws the
// same IoError on all when any of them failed: nothing of it is left then, older ones are intact.
std::filesystem::path save(const std::filesystem::path& directory, int64_t step, int64_t keep,
                           memory::ChunkEngine& chunks, const ParallelContext& context,
                           const Description& description);

// The newest checkpoint that is whole; warns of each that is not, naming what is wrong with it.
// Rank 0 looks, all ranks get the answer. Collective.
std::optional<std::filesystem::path> find_newest(const std::filesystem::path& directory,
                                                 const ParallelContext& context);

// state.json of a checkpoint.
nlohmann::json read_state(const std::filesystem::path& checkpoint);

// Weights, masters, moments and counts into `chunks`; returns state.json. Each rank reads for
// itself. Throws ConfigError when the checkpoint is of another model (naming the fields that
// differ) or another optimizer.
nlohmann::json load(const std::filesystem::path& checkpoint, memory::ChunkEngine& chunks,
                    const Description& description);

}  // namespace colossal::checkpoint
