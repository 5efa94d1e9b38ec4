#include "colossal/io/tensor_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

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
  double total_size = 0;  // any kind of number occurs; 0 if not stated
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

bool is_pickle(const std::string& name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") ||
         name.ends_with(".ckpt");
}

bool is_of_another_format(const std::string& name) {
  return name.ends_with(".h5") || name.ends_with(".msgpack") || name.ends_with(".gguf");
}

// Returns the names of the files for which `choose` is true, sorted.
std::vector<std::string> find_files(const std::filesystem::path& folder,
                                    const std::function<bool(const std::string&)>& choose) {
  std::vector<std::string> names;
  std::error_code ignored;  // the folder may not exist
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (choose(name)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

// Returns files with weights that are not read. (training_args.bin is transformers' own settings.)
std::vector<std::string> find_other_weights(const std::filesystem::path& folder) {
  return find_files(folder, [](const std::string& name) {
    return name != "training_args.bin" &&
           (is_pickle(name) || is_of_another_format(name) || name.ends_with(kExtension));
  });
}

std::string list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  const bool all = names.size() <= kShown;
  const std::span shown = std::span(names).first(all ? names.size() : kShown);
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     all ? "" : fmt::format(" and {} more", names.size() - kShown));
}

[[noreturn]] void refuse_other_weights(const std::filesystem::path& folder,
                                       const std::vector<std::string>& names) {
  const char* advice =
      std::ranges::any_of(names, is_pickle)
          ? "pickles can run any program and are never read: save the model with transformers' "
            "save_pretrained(..., safe_serialization=True)"
      : std::ranges::any_of(names, is_of_another_format)
          ? "save the model with transformers' save_pretrained"
          : "give the file one of these names, or write the index";
  throw ConfigError(fmt::format("{}: its weights are not read from {}, only from {} or {}; {}",
                                folder.string(), list(names), kSingleFile, kIndexFile, advice));
}

[[noreturn]] void refuse_folder_without_weights(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw ConfigError(fmt::format("{}: is not a folder with model weights", folder.string()));
  }
  throw ConfigError(
      fmt::format("{}: has neither {} nor {}", folder.string(), kSingleFile, kIndexFile));
}

}  // namespace

bool holds_weights(const std::filesystem::path& folder) {
  std::error_code error;
  for (const char* name : {kSingleFile, kIndexFile}) {
    if (std::filesystem::exists(folder / name, error)) return true;
  }
  const std::vector<std::string> others = find_other_weights(folder);
  if (!others.empty()) refuse_other_weights(folder, others);
  return false;
}

TensorDirectory::TensorDirectory(const std::filesystem::path& folder, OutsideLinks links)
    : folder_(folder) {
  if (!holds_weights(folder_)) refuse_folder_without_weights(folder_);
  std::error_code error;
  if (std::filesystem::exists(folder_ / kSingleFile, error)) {
    files_.push_back(
        std::make_unique<SafetensorsReader>(File::open_inside(folder_, kSingleFile, links)));
  } else {
    open_shards(links);
  }
  check_all_are_read();
}

void TensorDirectory::check_all_are_read() const {
  const std::vector<std::string> unread = find_files(folder_, [this](const std::string& name) {
    const auto is_it = [&](const auto& file) { return file->path() == folder_ / name; };
    return name.ends_with(kExtension) && !name.starts_with("consolidated") &&
           std::ranges::none_of(files_, is_it);
  });
  if (unread.empty()) return;
  const bool single = files_.size() == 1 && files_[0]->path() == folder_ / kSingleFile;
  throw ConfigError(fmt::format(
      "{}: {} would not be read, as {}; move it elsewhere, or {}", folder_.string(), list(unread),
      single ? fmt::format("{} is there", kSingleFile)
             : fmt::format("{} does not name it", kIndexFile),
      single ? fmt::format("remove {}", kSingleFile) : "name its tensors there"));
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
