// The adapters of a server, which requests select by name. Adapters can be loaded and unloaded
// while the server runs.
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
#include "colossal/server/chat_form.h"

namespace colossal::server {

// What is read of an adapter.
struct LoadedAdapter {
  std::shared_ptr<const nn::AdapterWeights> weights;
  std::shared_ptr<const ChatForm> form;
};

// A loaded adapter.
struct ServedAdapter {
  std::string name;  // the field `model` of requests that use it
  std::filesystem::path folder;
  int64_t created = 0;  // time of loading, in seconds since 1970
  // Shared with running requests, so that the weights outlive unload().
  std::shared_ptr<const nn::AdapterWeights> weights;
  std::shared_ptr<const ChatForm> form;  // what the adapter was taught
};

// The loaded adapters by name. Thread-safe. find() does not block while an adapter is being read.
class AdapterRegistry {
 public:
  // Reads the adapter in a folder; throws Error if it cannot.
  using Load = std::function<LoadedAdapter(const std::filesystem::path& folder)>;

  // An empty registry: load() always throws.
  AdapterRegistry() = default;
  // most: maximum number of adapters that are loaded at once.
  AdapterRegistry(Load load, size_t most) : load_(std::move(load)), max_adapters_(most) {}

  // Reads the adapter in `folder` and adds it under `name`; if the name is in use and `replace` is
  // true, the new adapter replaces that of this name. Throws ApiError 400 if the name is in use and
  // `replace` is false, if the name is new and `most` adapters are already loaded, or if the
  // adapter cannot be read.
  void load(const std::string& name, const std::filesystem::path& folder, bool replace = false);
  // Removes an adapter. Throws ApiError 404 if no adapter has this name.
  void unload(const std::string& name);
  // Returns the adapter of this name; nullopt if there is none.
  std::optional<ServedAdapter> find(const std::string& name) const;
  // Returns all adapters in order of loading; an adapter that replaced another has its place.
  std::vector<ServedAdapter> all() const;

 private:
  // Requires mutex_ to be locked. Returns true if the name is in use and its adapter is to be
  // replaced, false if an adapter is to be added. Throws ApiError 400 under the conditions of
  // load().
  bool check_place(const std::string& name, bool replace) const;

  const Load load_;
  const size_t max_adapters_ = 0;
  std::mutex loading_;        // held by load(), so that one adapter is read at a time
  mutable std::mutex mutex_;  // guards adapters_
  std::vector<ServedAdapter> adapters_;
};

}  // namespace colossal::server
