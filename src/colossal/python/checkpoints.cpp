#include "colossal/python/checkpoints.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "colossal/checkpoint/all_or_none.h"
#include "colossal/python/definitions.h"
#include "colossal/python/tensor_caster.h"

namespace nb = nanobind;

namespace colossal::python {
namespace {

// The key of state.json under which the program's own state is stored.
constexpr const char* kProgram = "program";

TensorSlice whole_tensor(const std::string& parameter) {
  return TensorSlice{.name = parameter};
}

checkpoint::Description description_of(const Contents& contents) {
  return {.model_config = nlohmann::json::parse(contents.config),
          .model_fields = nlohmann::json::parse(contents.model_fields),
          .slice_in_files = whole_tensor,
          .buffers = contents.buffers,
          .files = contents.files,
          .state = {{kProgram, nlohmann::json::parse(contents.state)}}};
}

// Loads a checkpoint into the engine and contents.buffers. Returns the program's state. Collective:
// if a rank fails, all throw its error.
std::string load(const Cluster& cluster, const std::string& path, ModuleEngine& engine,
                 const Contents& contents) {
  std::string program;
  checkpoint::all_or_none(cluster.context.background_group(), [&]() -> std::string {
    const nlohmann::json state = checkpoint::load(path, engine.chunks(), description_of(contents));
    engine.set_steps_done(state.at("step"));
    program = state.value(kProgram, nlohmann::json::object()).dump();
    return "";
  });
  return program;
}

}  // namespace

Checkpoints::Checkpoints(const Cluster& cluster, ModuleEngine& engine, const std::string& directory,
                         const std::string& resume)
    : cluster_(cluster),
      engine_(engine),
      folder_(std::filesystem::absolute(directory), /*keep=*/0, resume, cluster.context) {}

std::optional<std::string> Checkpoints::start() const {
  if (!folder_.start()) return std::nullopt;
  return folder_.start()->string();
}

void Checkpoints::keep(int64_t newest) {
  finish_save();
  folder_.keep_newest(newest);
}

void Checkpoints::begin_save(const Contents& contents) {
  finish_save();
  engine_.chunks().synchronize();
  save_.emplace(folder_, engine_.steps_done(), engine_.chunks(), cluster_.context,
                description_of(contents));
}

void Checkpoints::wait_until_read() {
  if (save_) save_->wait_until_read();
}

std::string Checkpoints::finish_save() {
  if (!save_) return "";
  struct Drop {  // also if the save has failed
    std::optional<checkpoint::Save>& save;
    ~Drop() { save.reset(); }
  } drop{save_};
  return save_->finish().string();
}

void define_checkpoints(nb::module_& module) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Contents>(module, "CheckpointContents")
      .def(nb::init<std::string, std::string, checkpoint::Buffers,
                    std::vector<std::pair<std::string, std::string>>, std::string>(),
           nb::arg("config"), nb::arg("model_fields"), nb::arg("buffers"), nb::arg("files"),
           nb::arg("state"));
  nb::class_<Checkpoints>(module, "Checkpoints")
      .def(nb::init<const Cluster&, ModuleEngine&, const std::string&, const std::string&>(),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::arg("cluster"), nb::arg("engine"),
           nb::arg("directory"), nb::arg("resume"), Unlocked())
      .def_prop_ro("start", &Checkpoints::start)
      .def("keep", &Checkpoints::keep, nb::arg("newest"), Unlocked())
      .def("begin_save", &Checkpoints::begin_save, nb::arg("contents"), Unlocked())
      .def("wait_until_read", &Checkpoints::wait_until_read, Unlocked())
      .def("finish_save", &Checkpoints::finish_save, Unlocked());
  module.def("load_checkpoint", &load, nb::arg("cluster"), nb::arg("checkpoint"), nb::arg("engine"),
             nb::arg("contents"), Unlocked());
}

}  // namespace colossal::python
