// The adapters that requests may choose by name, loaded and unloaded while the server runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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

// Used on the server's thread alone, once that answers.
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
  // Null: there is none of this name.
  const ServedAdapter* find(const std::string& name) const;
  const std::vector<ServedAdapter>& all() const { return adapters_; }

 private:
  Load load_;
  size_t most_ = 0;
  std::vector<ServedAdapter> adapters_;  // in the order in which they came
};

}  // namespace colossal::server
