#include "colossal/nn/builder.h"

namespace colossal::nn {

Builder::Scope::Scope(Builder& builder, const std::string& name) : builder_(builder) {
  builder_.enter(name);
}

Builder::Scope::~Scope() {
  builder_.leave();
}

}  // namespace colossal::nn
