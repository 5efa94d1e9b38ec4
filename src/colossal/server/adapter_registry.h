// The adapters that requests select by name. Adapters can be loaded and unloaded while the server
// runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "colossal/nn/adapter_weights.h"

namespace colossal::server {

struct ServedAdapter {
  std::string name;
  std::filesystem::path folder;
  int64_t created = 0;  // seconds since 1970
  // Shared with running requests, so that it outlives unload().
  std::shared_ptr<const nn::AdapterWeights> weights;
};

// Thread-safe. find() does not block while an adapter is being read.
class AdapterRegistry {
 public:
  using Load =
      std::function<std::shared_ptr<const nn::AdapterWeights>(const std::filesystem::path& folder)>;

  AdapterRegistry() = default;  // an empty registry that accepts no adapters
  // load: reads an adapter. most: how many adapters may be loaded at once.
  AdapterRegistry(Load load, size_t most) : load_(std::move(load)), most_(most) {}

  // Reads an adapter and adds it. replace: an adapter with this name may exist and is then
  // replaced. Throws ApiError 400 if the name is in use (unless `replace`), if `most` adapters are
  // loaded already, or if the folder cannot be read.
  void load(const std::string& name, const std::filesystem::path& folder, bool replace = false);
  // Throws ApiError 404 if no adapter has this name.
  void unload(const std::string& name);
  // Returns nullopt if no adapter has this name.
  std::optional<ServedAdapter> find(const std::string& name) const;
  std::vector<ServedAdapter> all() const;  // in order of loading

 private:
  // Requires mutex_ to be locked. Returns whether the name is in use, so that the adapter replaces
  // another; throws ApiError 400 as load() does.
  bool check_place(const std::string& name, bool replace) const;

  const Load load_;
  const size_t most_ = 0;
  std::mutex loading_;  // serializes load()
  mutable std::mutex mutex_;
  std::vector<ServedAdapter> adapters_;
};

}  // namespace colossal::server
