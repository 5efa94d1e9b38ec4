// Checkpoints of a module that Python trains: folders that transformers opens, with the training
// state in a subfolder (checkpoint/checkpoint.h). Written by all ranks, each its shards, while the
// program goes on; read at any ZeRO stage and number of ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "colossal/checkpoint/checkpoint.h"
#include "colossal/checkpoint/run_folder.h"
#include "colossal/engine/module_engine.h"
#include "colossal/python/cluster.h"

namespace colossal::python {

// What a checkpoint has beside the engine's tensors. JSON is given as text.
struct Contents {
  std::string config;           // JSON, the contents of config.json
  std::string model_fields;     // JSON, see checkpoint::Description
  checkpoint::Buffers buffers;  // copies: training changes those of the model
  std::vector<std::pair<std::string, std::string>> files;  // names and contents
  std::string state;  // JSON object of the program, which load() returns
};

// The checkpoints of a run in a folder. All functions are collective, and throw as
// checkpoint::Save, checkpoint::load() and RunFolder do.
class Checkpoints {
 public:
  // resume: see RunFolder. `cluster` and `engine` must outlive this.
  Checkpoints(const Cluster& cluster, ModuleEngine& engine, const std::string& directory,
              const std::string& resume);

  // The checkpoint from which the run resumes, if there is one.
  std::optional<std::string> start() const;
  // How many checkpoints are kept, from the next save on; 0: all.
  void keep(int64_t newest);

  // Begins to save the engine's state after its last update. At most one save runs at a time.
  void begin_save(const Contents& contents);
  // Call this before the engine's next update: waits until the save has read what it stores.
  void wait_until_read();
  // Waits for the end of the save, and returns the path of the checkpoint; "" if no save runs.
  std::string finish_save();

 private:
  const Cluster& cluster_;
  ModuleEngine& engine_;
  checkpoint::RunFolder folder_;
  std::optional<checkpoint::Save> save_;
};

}  // namespace colossal::python
