#include "colossal/nn/memory_store.h"

#include "colossal/base/error.h"

namespace colossal::nn {

void MemoryStore::add(int64_t source, const at::Tensor& memory, const StepContext& context) {
  sources_[source] = {.memory = memory, .context = context, .layers = {}};
}

void MemoryStore::remove(int64_t source) {
  sources_.erase(source);
}

void MemoryStore::begin_step(const std::vector<Chunk>& chunks) {
  for (auto& [number, source] : sources_) {
    if (!source.layers.empty()) source.memory = at::Tensor();
  }
  chunks_.clear();
  for (const auto& [source, count] : chunks) {
    if (each_token_alone_) {
      chunks_.insert(chunks_.end(), count, {source, 1});
    } else {
      chunks_.push_back({source, count});
    }
  }
}

void MemoryStore::project(int64_t layer, const KeyValue& key_value) {
  for (auto& [number, source] : sources_) {
    if (!source.memory.defined() || source.layers.contains(layer)) continue;
    source.layers[layer] = key_value(source.memory, source.context);
  }
}

const at::Tensor& MemoryStore::key_value(int64_t layer, int64_t source) const {
  const auto found = sources_.find(source);
  COLOSSAL_CHECK(found != sources_.end() && found->second.layers.contains(layer),
                 "no keys and values of source {} in layer {}", source, layer);
  return found->second.layers.at(layer);
}

}  // namespace colossal::nn
