#include "colossal/server/adapter_registry.h"

#include <algorithm>
#include <ctime>

#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "colossal/server/api_error.h"

namespace colossal::server {

void AdapterRegistry::load(const std::string& name, const std::filesystem::path& folder,
                           bool replace) {
  const auto old = std::ranges::find(adapters_, name, &ServedAdapter::name);
  if (old != adapters_.end() && !replace) {
    throw ApiError(400,
                   fmt::format("the adapter {} is loaded already; unload it first, or send "
                               "\"load_inplace\": true",
                               io::quote_text(name)),
                   "lora_name");
  }
  if (old == adapters_.end() && adapters_.size() >= most_) {
    throw ApiError(400, fmt::format("{} adapters are loaded, more are not taken: unload one first, "
                                    "or start with a larger --max-adapters",
                                    adapters_.size()));
  }
  ServedAdapter loaded{.name = name, .folder = folder, .created = std::time(nullptr)};
  try {
    loaded.weights = load_(folder);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "lora_path");
  }
  if (old == adapters_.end()) {
    adapters_.push_back(std::move(loaded));
  } else {
    *old = std::move(loaded);
  }
}

void AdapterRegistry::unload(const std::string& name) {
  const auto found = std::ranges::find(adapters_, name, &ServedAdapter::name);
  if (found == adapters_.end()) {
    throw ApiError(404, fmt::format("no adapter {} is loaded", io::quote_text(name)), "lora_name");
  }
  adapters_.erase(found);
}

const ServedAdapter* AdapterRegistry::find(const std::string& name) const {
  const auto found = std::ranges::find(adapters_, name, &ServedAdapter::name);
  return found == adapters_.end() ? nullptr : &*found;
}

}  // namespace colossal::server
