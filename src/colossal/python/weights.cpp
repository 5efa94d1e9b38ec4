#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/engine/module_engine.h"
#include "colossal/python/definitions.h"
#include "colossal/python/tensor_caster.h"

namespace nb = nanobind;

namespace colossal::python {
namespace {

// Writes whole values to the working weights and masters of which this rank holds a part. Call it
// on all ranks, with equal values, between passes. Throws ConfigError if the parameter has other
// dims, or does not exist.
void load_weight(ModuleEngine& engine, const std::string& name, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  const nn::ParameterList& all = engine.chunks().parameters();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const nn::ParameterHandle& each) { return each->name == name; });
  if (found == all.end()) throw ConfigError(fmt::format("the model has no parameter {}", name));
  const at::IntArrayRef wanted = (*found)->shape;
  if (values.sizes() != wanted) {
    throw ConfigError(fmt::format("{} has dims [{}], and its new values have [{}]", name,
                                  fmt::join(wanted, ", "), fmt::join(values.sizes(), ", ")));
  }
  engine.chunks().synchronize();
  engine.chunks().load(**found, 0, values.detach().contiguous().view(-1));
}

}  // namespace

void define_weights(nb::module_& module) {
  module.def("load_weight", &load_weight, nb::arg("engine"), nb::arg("name"), nb::arg("values"),
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace colossal::python
