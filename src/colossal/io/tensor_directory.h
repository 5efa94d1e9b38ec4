// A folder of weights as the Hugging Face hub has them: model.safetensors, or
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

class TensorDirectory {
 public:
  // Reads and checks the index and every header. Throws IoError when a shard's name is no plain
  // file name or a link leaves the folder (unless told to follow), a shard is missing, or index and
  // shards do not name exactly the same tensors; ConfigError when the folder has no safetensors
  // (with advice where it has pickles, which are never read).
  explicit TensorDirectory(const std::filesystem::path& folder,
                           OutsideLinks links = OutsideLinks::refuse);

  const std::filesystem::path& path() const { return folder_; }
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  std::vector<std::string> names() const;  // sorted within each file, file after file

  struct Tensor {
    const SafetensorsReader* file;  // lives as long as the directory
    const TensorEntry* entry;
  };
  bool contains(std::string_view name) const { return locate(name).entry != nullptr; }
  Tensor find(std::string_view name) const;  // throws IoError when there is none

 private:
  void open_shards(OutsideLinks links);
  Tensor locate(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
};

}  // namespace colossal::io
