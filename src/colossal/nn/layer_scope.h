// A scope around the operators of a layer's forward pass. It names the layer for profilers. The
// weights that the layer reads stay on the device until the scope ends. Layers open a scope in
// forward() and pass it to ParameterHandle::use().
#pragma once

#include <ATen/record_function.h>

#include <string>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

class LayerScope {
 public:
  explicit LayerScope(const std::string& layer) : LayerScope([&] { return layer; }) {}

  // name_layer: returns the layer's name. Called only if a profiler is active, so that names cost
  // nothing otherwise.
  template <typename NameLayer>
  requires std::is_invocable_v<NameLayer>
  explicit LayerScope(const NameLayer& name_layer) : function_(at::RecordScope::USER_SCOPE) {
    if (!function_.isActive()) return;
    name_ = name_layer();
    function_.before(name_.c_str());
  }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;
  ~LayerScope() {
    for (const ParameterHandle& parameter : held_) parameter->residency->after_use(*parameter);
  }

  // Brings the parameter's bytes to the device and keeps them there until the scope ends. The
  // parameter's residency must not be null; ParameterHandle::use() calls hold() only for such
  // parameters. If `counts` is not null, the parameter is a stack of experts, counts[e] is the
  // number of rows routed to expert e of this rank, and only experts with rows are needed.
  void hold(const ParameterHandle& parameter, const std::vector<int64_t>* counts = nullptr) {
    if (counts) {
      parameter->residency->before_use_of(*parameter, *counts);
    } else {
      parameter->residency->before_use(*parameter);
    }
    held_.push_back(parameter);
  }

 private:
  std::string name_;
  std::vector<ParameterHandle> held_;
  at::RecordFunction function_;
};

// Returns a scope with the name of the weight's layer: "blocks.3.mlp_up" for the parameter
// "blocks.3.mlp_up.weight".
inline LayerScope scope_of(const ParameterHandle& weight) {
  return LayerScope([&] { return weight->name.substr(0, weight->name.rfind('.')); });
}

}  // namespace colossal::nn
