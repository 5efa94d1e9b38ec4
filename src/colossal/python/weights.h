// Weights that the program gives to a module that the engine trains: those of a model's file.
#pragma once

#include <nanobind/nanobind.h>

namespace colossal::python {

// Defines the functions in the extension module.
void define_weights(nanobind::module_& module);

}  // namespace colossal::python
