// The parts of the extension module: each function defines classes and functions of colossal._core.
#pragma once

#include <nanobind/nanobind.h>

namespace colossal::python {

// LanguageModel and Generation, for colossal.LLM.
void define_language_model(nanobind::module_& module);

}  // namespace colossal::python
