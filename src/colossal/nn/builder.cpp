#include "colossal/nn/builder.h"

namespace colossal::nn {

Placement Builder::of_features(const std::vector<int64_t>& shape, size_t dim) const {
  Placement placement = of_features(shape[dim]);
  if (placement.held.empty()) return placement;
  std::vector<std::vector<Range>> held;
  for (const int64_t size : shape) held.push_back({{0, size}});
  held[dim] = placement.held.front();
  placement.held = std::move(held);
  return placement;
}

Builder::Scope::Scope(Builder& builder, const std::string& name) : builder_(builder) {
  builder_.enter(name);
}

Builder::Scope::~Scope() {
  builder_.leave();
}

}  // namespace colossal::nn
