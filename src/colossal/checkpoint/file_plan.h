// Plans in which file, and at which bytes, each tensor of a checkpoint is stored. All ranks compute
// the same plan, so that each rank can write its shards.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/checkpoint/weights.h"
#include "colossal/io/safetensors.h"
#include "colossal/memory/chunk_engine.h"

namespace colossal::checkpoint {

// Files of a checkpoint, relative to its folder. kOptimizerFile has the masters and optimizer
// states. kStateFile has the other training state; a FilePlan does not contain it.
inline constexpr const char* kOptimizerFile = "training_state/optimizer.safetensors";
inline constexpr const char* kStateFile = "training_state/state.json";

// Which weights a checkpoint has, and the names of their files.
struct WeightFiles {
  std::string config = "config.json";  // name of the file that describes the model or adapter
  // NAME in the names of the files of weights, NAME-00001-of-0000N.safetensors, and of their index,
  // NAME.safetensors.index.json.
  std::string name = "model";
  // True: the checkpoint has only the adapter's weights, in the one file NAME.safetensors.
  bool only_adapter = false;
  // Maximum bytes of tensors in one file. A larger tensor has a file of its own.
  int64_t max_file_bytes = int64_t{4} << 30;
};

class FilePlan {
 public:
  // Plans the files of the parameters of `chunks`: weights in the working dtype; masters and
  // optimizer states in the master dtype. Parameters that are not trained have no masters and
  // states. There are no masters if the working dtype is the master dtype. slice_of: a function
  // that returns, for a parameter's name, which tensors in files have the parameter's weights, and
  // at which elements (TensorSlice). Masters and states are tensors of the parameter's own shape.
  FilePlan(const memory::ChunkEngine& chunks, const SliceOf& slice_of, const WeightFiles& weights);

  struct PlannedFile {
    std::string name;  // relative to the checkpoint
    io::SafetensorsPlan plan;
  };
  // Returns the files of the weights, then kOptimizerFile.
  const std::vector<PlannedFile>& files() const { return files_; }

  struct Position {
    const std::string* file;  // its name; owned by the FilePlan
    int64_t offset;           // in bytes, from the beginning of the file
  };
  // Returns the position of element `begin` of the flattened tensor that files store with the name
  // `tensor`: a name from slice_of, master_name() or state_name(). Throws InternalError if no file
  // has this tensor.
  Position find(const std::string& tensor, int64_t begin) const;

  // Returns the contents of NAME.safetensors.index.json. Do not write it with only_adapter: there
  // is then no such file.
  std::string index_json() const;

  // Return the names of a parameter's tensors in kOptimizerFile. parameter: its name in the model.
  // state: one of Optimizer::state_names().
  static std::string master_name(const std::string& parameter) { return "master." + parameter; }
  static std::string state_name(const std::string& state, const std::string& parameter) {
    return state + "." + parameter;
  }

 private:
  struct Place {
    size_t file, entry;  // indices into files_, and into the entries of the file's plan
  };

  // Plans a file with these tensors.
  void add(const std::string& name, const std::vector<io::TensorSpec>& tensors);

  std::vector<PlannedFile> files_;
  std::unordered_map<std::string, Place> places_;  // by name of the tensor
  size_t weight_files_ = 0;   // number of files with weights, at the beginning of files_
  int64_t weight_bytes_ = 0;  // of all weights
};

}  // namespace colossal::checkpoint
