// A folder of weights in the layout of the Hugging Face Hub: model.safetensors, or
// model.safetensors.index.json with its shards.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/io/file.h"
#include "colossal/io/safetensors.h"

namespace colossal::io {

// Returns true if the folder has weights that TensorDirectory can read, false if it has no weights.
// Throws ConfigError, with advice, if it has only other weights: pickles (which are never read),
// other formats, or *.safetensors files with other names.
bool holds_weights(const std::filesystem::path& folder);

class TensorDirectory {
 public:
  // Reads and validates the index and all headers. Throws IoError if a shard's name is not a plain
  // file name, if a link leaves the folder (unless links = follow), if a shard is missing, or if
  // the index and the shards do not list the same tensors. Throws ConfigError if the folder has no
  // readable weights, or has a *.safetensors file that would not be read.
  // ("consolidated*.safetensors" is allowed: the same weights under other names, as Mistral
  // publishes them.)
  explicit TensorDirectory(const std::filesystem::path& folder,
                           OutsideLinks links = OutsideLinks::refuse);

  const std::filesystem::path& path() const { return folder_; }
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  std::vector<std::string> names() const;  // sorted by name within each file, file by file

  struct Tensor {
    const SafetensorsReader* file;  // owned by the TensorDirectory
    const TensorEntry* entry;
  };
  bool contains(std::string_view name) const { return locate(name).entry != nullptr; }
  Tensor find(std::string_view name) const;  // throws IoError if missing

 private:
  void open_shards(OutsideLinks links);
  void check_all_are_read() const;
  Tensor locate(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
};

}  // namespace colossal::io
