// The parts of the extension module: each function defines classes and functions of colossal._core.
#pragma once

namespace nanobind {
class module_;
}

namespace colossal::python {

// Checkpoints of a ModuleEngine.
void define_checkpoints(nanobind::module_& module);
// Weights that the program gives to a module that the engine trains: those of a model's file.
void define_weights(nanobind::module_& module);
// LanguageModel and Generation, for colossal.LLM.
void define_language_model(nanobind::module_& module);
// Training, tuning and plans of runs.
void define_runs(nanobind::module_& module);

}  // namespace colossal::python
