// Plans in which file, and at which bytes, each tensor of a checkpoint is stored. All ranks compute
// the same plan, so that each rank can write its shards.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/checkpoint/weight_files.h"
#include "colossal/io/safetensors.h"
#include "colossal/memory/chunk_engine.h"

namespace colossal::checkpoint {

// Files of a checkpoint, relative to its folder. kOptimizerFile has the masters and optimizer
// states. kStateFile has the other training state; a FilePlan does not contain it.
inline constexpr const char* kOptimizerFile = "training_state/optimizer.safetensors";
inline constexpr const char* kStateFile = "training_state/state.json";

class FilePlan {
 public:
  // Plans the files of the parameters of `chunks`, with the tensors and dtypes of saved_values()
  // and saved_whole_states() (saved_values.h): in the files of weights all weights, in
  // kOptimizerFile the masters and optimizer states of the parameters that are trained. buffers:
  // tensors that are stored with the weights.
  FilePlan(const memory::ChunkEngine& chunks, const SliceOf& slice_of, const WeightFiles& weights,
           const std::vector<io::TensorSpec>& buffers = {});

  struct PlannedFile {
    std::string name;  // relative to the checkpoint
    io::SafetensorsPlan plan;
  };
  // Returns the files of the weights, then kOptimizerFile.
  const std::vector<PlannedFile>& files() const { return files_; }
  // Returns the bytes of these files.
  int64_t bytes() const;

  struct Position {
    const std::string* file;  // its name; owned by the FilePlan
    int64_t offset;           // in bytes, from the beginning of the file
  };
  // Returns the position of element `begin` of the flattened tensor that files store with the name
  // `tensor`: a name from slice_of, master_name() or state_name(). Throws InternalError if no file
  // has this tensor.
  Position find(const std::string& tensor, int64_t begin) const;

  // The tensors of all files have numbers from 0 on. tensor() throws InternalError if no file has
  // this tensor.
  struct PlannedTensor {
    const io::TensorEntry* entry;  // owned by the FilePlan
    size_t number;
  };
  size_t num_tensors() const { return places_.size(); }
  PlannedTensor tensor(const std::string& name) const;

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
    size_t number;       // of the tensor
  };
  const Place& place_of(const std::string& tensor) const;

  // Plans a file with these tensors.
  void add(const std::string& name, const std::vector<io::TensorSpec>& tensors);

  std::vector<PlannedFile> files_;
  std::unordered_map<std::string, Place> places_;  // by name of the tensor
  size_t weight_files_ = 0;   // number of files with weights, at the beginning of files_
  int64_t weight_bytes_ = 0;  // of all weights
};

}  // namespace colossal::checkpoint
