#include "colossal/io/tensor_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/io/json.h"

namespace colossal::io {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kExtension = ".safetensors";
constexpr size_t kMaxFileName = 255;

// ^[A-Za-z0-9._-]+\.safetensors$ and no "..": such a name cannot leave its folder.
bool is_plain_shard_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return name.size() > kExtension.size() && name.size() <= kMaxFileName &&
         name.ends_with(kExtension) && std::all_of(name.begin(), name.end(), plain) &&
         name.find("..") == std::string_view::npos;
}

struct Index {
  std::string path;
  std::map<std::string, std::vector<std::string>> tensors_of_shard;
  double total_size = 0;  // a number of any kind in the wild; 0 when not stated
};

Index read_index(const std::filesystem::path& path) {
  const nlohmann::json json = read_json(path);
  Index index{path.string(), {}, 0};
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw IoError(fmt::format("{}: has no object \"weight_map\"", index.path));
  }
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string() || !is_plain_shard_name(shard.get_ref<const std::string&>())) {
      throw IoError(
          fmt::format("{}: tensor {} is said to be in {}, which is not the plain name of a "
                      "*.safetensors file in this folder",
                      index.path, quote_text(tensor), show_value(shard)));
    }
    index.tensors_of_shard[shard.get<std::string>()].push_back(tensor);
  }
  if (json.contains("metadata") && json["metadata"].is_object() &&
      json["metadata"].contains("total_size")) {
    const auto& total = json["metadata"]["total_size"];
    if (!total.is_number()) {
      throw IoError(fmt::format("{}: its total_size is not a number", index.path));
    }
    index.total_size = total.get<double>();
  }
  return index;
}

void check_shard(const Index& index, const std::vector<std::string>& expected,
                 const SafetensorsReader& shard) {
  for (const std::string& name : expected) {
    if (!shard.find(name)) {
      throw IoError(fmt::format("{}: says that tensor {} is in {}, where it is not", index.path,
                                quote_text(name), shard.path().string()));
    }
  }
  if (shard.entries().size() == expected.size()) return;
  for (const TensorEntry& entry : shard.entries()) {
    if (std::find(expected.begin(), expected.end(), entry.name) == expected.end()) {
      throw IoError(fmt::format("{}: holds the tensor {}, which {} does not place there",
                                shard.path().string(), quote_text(entry.name), index.path));
    }
  }
}

bool has_pickles(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth") return true;
  }
  return false;
}

[[noreturn]] void refuse_folder_without_weights(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw ConfigError(fmt::format("{}: is not a folder with model weights", folder.string()));
  }
  throw ConfigError(fmt::format(
      "{}: has neither {} nor {}{}", folder.string(), kSingleFile, kIndexFile,
      has_pickles(folder) ? "; its .bin, .pt or .pth files are pickles, which can run any program "
                            "and are never read: save the model with transformers' "
                            "save_pretrained(..., safe_serialization=True)"
                          : ""));
}

}  // namespace

TensorDirectory::TensorDirectory(const std::filesystem::path& folder, OutsideLinks links)
    : folder_(folder) {
  std::error_code error;
  if (std::filesystem::exists(folder_ / kSingleFile, error)) {
    files_.push_back(
        std::make_unique<SafetensorsReader>(File::open_inside(folder_, kSingleFile, links)));
  } else if (std::filesystem::exists(folder_ / kIndexFile, error)) {
    open_shards(links);
  } else {
    refuse_folder_without_weights(folder_);
  }
}

void TensorDirectory::open_shards(OutsideLinks links) {
  const Index index = read_index(folder_ / kIndexFile);
  double bytes = 0;
  for (const auto& [name, tensors] : index.tensors_of_shard) {
    File file = File::open_inside(folder_, name, links);
    bytes += static_cast<double>(file.size());
    files_.push_back(std::make_unique<SafetensorsReader>(std::move(file)));
    check_shard(index, tensors, *files_.back());
  }
  if (!(index.total_size >= 0 && index.total_size <= bytes)) {
    throw IoError(fmt::format("{}: states {} bytes in all, its shards have {}", index.path,
                              index.total_size, bytes));
  }
}

std::vector<std::string> TensorDirectory::names() const {
  std::vector<std::string> names;
  for (const auto& file : files_) {
    const auto first = static_cast<std::ptrdiff_t>(names.size());
    for (const TensorEntry& entry : file->entries()) names.push_back(entry.name);
    std::sort(names.begin() + first, names.end());
  }
  return names;
}

TensorDirectory::Tensor TensorDirectory::locate(std::string_view name) const {
  for (const auto& file : files_) {
    if (const TensorEntry* entry = file->find(name)) return {file.get(), entry};
  }
  return {nullptr, nullptr};
}

TensorDirectory::Tensor TensorDirectory::find(std::string_view name) const {
  const Tensor tensor = locate(name);
  if (tensor.entry) return tensor;
  size_t count = 0;
  for (const auto& file : files_) count += file->entries().size();
  throw IoError(
      fmt::format("{}: has no tensor {} among its {}", folder_.string(), quote_text(name), count));
}

}  // namespace colossal::io
