// Plans where the tensors of a checkpoint are stored: in which file, at which bytes. Every rank
// computes the same plan.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/checkpoint/weights.h"
#include "colossal/io/safetensors.h"
#include "colossal/memory/chunk_engine.h"

namespace colossal::checkpoint {

inline constexpr const char* kOptimizerFile = "training_state/optimizer.safetensors";
inline constexpr const char* kStateFile = "training_state/state.json";

// Which weights a checkpoint has, and in which files.
struct WeightFiles {
  std::string config = "config.json";
  std::string name = "model";  // NAME-00001-of-0000N.safetensors, NAME.safetensors.index.json
  bool only_adapter = false;   // only the adapter, in one file: NAME.safetensors
  // The most bytes of tensors in one file. A tensor that is larger has a file of its own.
  int64_t max_file_bytes = int64_t{4} << 30;
};

class FilePlan {
 public:
  // Plans the files of the weights, followed by the file of the optimizer state.
  FilePlan(const memory::ChunkEngine& chunks, const SliceOf& slice_of, const WeightFiles& weights);

  struct PlannedFile {
    std::string name;
    io::SafetensorsPlan plan;
  };
  const std::vector<PlannedFile>& files() const { return files_; }

  struct Position {
    const std::string* file;
    int64_t offset;  // in bytes, from the beginning of the file
  };
  // Returns the position of element `begin` of a tensor, flattened.
  Position find(const std::string& tensor, int64_t begin) const;

  std::string index_json() const;  // contents of NAME.safetensors.index.json

  // Return the names of a parameter's tensors in kOptimizerFile.
  static std::string master_name(const std::string& parameter) { return "master." + parameter; }
  static std::string state_name(const std::string& state, const std::string& parameter) {
    return state + "." + parameter;
  }

 private:
  struct Place {
    size_t file, entry;  // indices into files_, and into the entries of the file's plan
  };

  void add(const std::string& name, const std::vector<io::TensorSpec>& tensors);

  std::vector<PlannedFile> files_;
  std::unordered_map<std::string, Place> places_;  // by name of the tensor
  size_t weight_files_ = 0;  // number of files with weights, at the beginning of files_
  int64_t weight_bytes_ = 0;
};

}  // namespace colossal::checkpoint
