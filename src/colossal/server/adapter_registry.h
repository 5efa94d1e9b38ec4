// The adapters that requests may choose by name, loaded and unloaded while the server runs.
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
  // Requests hold it, too, to their end.
  std::shared_ptr<const nn::AdapterWeights> weights;
};

// May be used from any thread; while an adapter is read, others are found.
class AdapterRegistry {
 public:
  using Load =
      std::function<std::shared_ptr<const nn::AdapterWeights>(const std::filesystem::path& folder)>;

  AdapterRegistry() = default;  // has none and takes none
  AdapterRegistry(Load load, size_t most) : load_(std::move(load)), most_(most) {}

  // Throws ApiError 400 for a name that is taken (unless it is to be replaced), for more adapters
  // than may be loaded, and for a folder that is not read.
  void load(const std::string& name, const std::filesystem::path& folder, bool replace = false);
  // Throws ApiError 404.
  void unload(const std::string& name);
  // Nothing: there is none of this name.
  std::optional<ServedAdapter> find(const std::string& name) const;
  std::vector<ServedAdapter> all() const;  // in the order in which they came

 private:
  // Under the lock. Whether there is one of this name that is to be replaced.
  bool check_place(const std::string& name, bool replace) const;

  const Load load_;
  const size_t most_ = 0;
  std::mutex loading_;  // one at a time
  mutable std::mutex mutex_;
  std::vector<ServedAdapter> adapters_;
};

}  // namespace colossal::server
