#include "colossal/server/adapter_registry.h"

#include <algorithm>
#include <ctime>

#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "colossal/server/api_error.h"

namespace colossal::server {

bool AdapterRegistry::check_place(const std::string& name, bool replace) const {
  const bool is_there = std::ranges::find(adapters_, name, &ServedAdapter::name) != adapters_.end();
  if (is_there && !replace) {
    throw ApiError(400,
                   fmt::format("the adapter {} is loaded already; unload it first, or send "
                               "\"load_inplace\": true",
                               io::quote_text(name)),
                   "lora_name");
  }
  if (!is_there && adapters_.size() >= max_adapters_) {
    throw ApiError(400, fmt::format("{} adapters are loaded, which is the maximum: unload one "
                                    "first, or start the server with a larger --max-adapters",
                                    adapters_.size()));
  }
  return is_there;
}

void AdapterRegistry::load(const std::string& name, const std::filesystem::path& folder,
                           bool replace) {
  const std::lock_guard loading(loading_);
  {
    const std::lock_guard lock(mutex_);
    check_place(name, replace);
  }
  ServedAdapter loaded{.name = name, .folder = folder, .created = std::time(nullptr)};
  try {
    LoadedAdapter read = load_(folder);
    loaded.weights = std::move(read.weights);
    loaded.form = std::move(read.form);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "lora_path");
  }
  const std::lock_guard lock(mutex_);
  if (check_place(name, replace)) {
    *std::ranges::find(adapters_, name, &ServedAdapter::name) = std::move(loaded);
  } else {
    adapters_.push_back(std::move(loaded));
  }
}

void AdapterRegistry::unload(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(adapters_, name, &ServedAdapter::name);
  if (found == adapters_.end()) {
    throw ApiError(404, fmt::format("no adapter {} is loaded", io::quote_text(name)), "lora_name");
  }
  adapters_.erase(found);
}

std::optional<ServedAdapter> AdapterRegistry::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(adapters_, name, &ServedAdapter::name);
  return found == adapters_.end() ? std::nullopt : std::optional(*found);
}

std::vector<ServedAdapter> AdapterRegistry::all() const {
  const std::lock_guard lock(mutex_);
  return adapters_;
}

}  // namespace colossal::server
