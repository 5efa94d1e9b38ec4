// The extension module colossal._core: what the Python package (python/colossal) calls. All that
// computes, communicates or waits releases Python's lock.
#include <ATen/core/grad_mode.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/version.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/comm/world.h"
#include "colossal/engine/module_engine.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/python/checkpoints.h"
#include "colossal/python/cluster.h"
#include "colossal/python/definitions.h"
#include "colossal/python/tensor_caster.h"

namespace nb = nanobind;

namespace colossal::python {
namespace {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

std::unique_ptr<Ranks> connect(const std::string& backend, double timeout) {
  const auto launch = cluster::read_launch_environment();
  if (!launch || launch->rendezvous.size == 1) {
    return std::make_unique<Ranks>(Ranks{comm::single_world()});
  }
  comm::Rendezvous meeting = launch->rendezvous;
  meeting.prefix += "colossal/";  // another library of the ranks may use the store
  return std::make_unique<Ranks>(
      Ranks{comm::connect(meeting, {.backend = backend, .device = "cpu"},
                          std::chrono::milliseconds(static_cast<int64_t>(timeout * 1000)))});
}

// Gives all ranks the values of rank 0.
void broadcast(const Cluster& cluster, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor own = tensor.detach(), values = own.contiguous();
  comm::broadcast(values.flatten().view(at::kByte), 0, cluster.context.data_group(),
                  comm::Reason::parameter);
  if (!values.is_same(own)) own.copy_(values);
}

// Returns the bytes of all ranks.
nb::list gather_bytes(const Cluster& cluster, const nb::bytes& bytes) {
  const std::string mine(bytes.c_str(), bytes.size());
  std::vector<std::string> all;
  {
    const nb::gil_scoped_release unlocked;
    all = comm::gather_bytes(mine, cluster.context.data_group(), comm::Reason::checkpoint);
  }
  nb::list found;
  for (const std::string& each : all) found.append(nb::bytes(each.data(), each.size()));
  return found;
}

Precision precision_of(const std::string& dtype) {
  if (dtype == "bf16") {
    return {.compute = at::kBFloat16, .master = at::kFloat, .gradient = at::kFloat};
  }
  if (dtype == "fp32") return {};
  if (dtype == "fp64") {
    return {.compute = at::kDouble, .master = at::kDouble, .gradient = at::kDouble};
  }
  throw ConfigError(fmt::format("dtype=\"{}\": choose bf16, fp32 or fp64", dtype));
}

// Of a group of parameters: their names, factor of the learning rate, weight decay.
using Group = std::tuple<std::vector<std::string>, double, double>;

// A parameter: name, tensor, order of dims ("out_in" or "in_out") if it is the weight of a linear
// layer, else "", and whether that layer is the model's head.
using Parameter = std::tuple<std::string, at::Tensor, std::string, bool>;

std::unique_ptr<ModuleEngine> make_engine(
    const Cluster& cluster, const std::vector<Parameter>& parameters, const std::string& optimizer,
    const std::optional<std::vector<double>>& betas, std::optional<double> eps,
    std::optional<double> momentum, bool nesterov, const std::vector<Group>& groups,
    const std::string& dtype, const std::vector<std::tuple<std::string, double, double>>& offload,
    const std::string& nvme_path, std::optional<int64_t> chunk_bytes,
    std::optional<int64_t> window_bytes) {
  EngineConfig config{.precision = precision_of(dtype)};
  config.optimizer.name = optimizer;
  config.optimizer.betas = betas;
  config.optimizer.eps = eps;
  config.optimizer.momentum = momentum;
  config.optimizer.nesterov = nesterov;
  for (const auto& [names, scale, weight_decay] : groups) {
    config.optimizer.groups.push_back({.learning_rate_scale = scale,
                                       .weight_decay = weight_decay,
                                       .parameters = {names.begin(), names.end()}});
  }
  for (const auto& [kind, host, nvme] : offload) {
    for (const memory::MemoryKind tiered : memory::kTieredKinds) {
      if (kind == memory::memory_kind_name(tiered)) {
        config.tiers.of(tiered) = {.host = host, .nvme = nvme};
      }
    }
  }
  config.tiers.nvme_path = nvme_path;
  if (chunk_bytes) config.chunk_bytes = *chunk_bytes;
  if (window_bytes) config.window_bytes = *window_bytes;
  ModuleEngine::Parameters taken;
  for (const auto& [name, tensor, order, is_head] : parameters) {
    taken.push_back({.name = name, .tensor = tensor, .is_head = is_head});
    if (order == "out_in") taken.back().product = nn::WeightOrder::out_in;
    if (order == "in_out") taken.back().product = nn::WeightOrder::in_out;
  }
  return std::make_unique<ModuleEngine>(taken, cluster.context, std::move(config));
}

void define_errors(nb::module_& module) {
  // An error of Python that has crossed our code, such as one of a hook, arrives as it was.
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (python_error& error) {
      error.restore();
    }
  });
  nb::exception<Error>(module, "Error", PyExc_RuntimeError);
  nb::exception<ConfigError>(module, "ConfigError", PyExc_ValueError);
  nb::exception<IoError>(module, "IoError", PyExc_OSError);
  nb::exception<CommError>(module, "CommError", PyExc_ConnectionError);
  nb::exception<NonFiniteError>(module, "NonFiniteError", PyExc_FloatingPointError);
  // Ctrl-C has ended a wait (python/colossal/_interrupts.py): its own error comes first.
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const CommError&) {
      if (PyErr_CheckSignals() == 0) throw;
    }
  });
}

void define_cluster(nb::module_& module) {
  nb::class_<Ranks>(module, "Ranks")
      .def_prop_ro("rank", [](const Ranks& ranks) { return ranks.world->rank(); })
      .def_prop_ro("size", [](const Ranks& ranks) { return ranks.world->size(); })
      .def_prop_ro("backend",
                   [](const Ranks& ranks) { return std::string(ranks.world->backend()); })
      .def(
          "abort", [](const Ranks& ranks, const std::string& why) { ranks.world->abort(why); },
          nb::arg("why"), Unlocked());
  module.def("connect", &connect, nb::arg("backend"), nb::arg("timeout"), Unlocked());
  nb::class_<Cluster>(module, "Cluster")
      .def(nb::init<const Ranks&, int>(), nb::keep_alive<1, 2>(), nb::arg("ranks"), nb::arg("zero"),
           Unlocked())
      .def_prop_ro("rank", [](const Cluster& cluster) { return cluster.context.rank(); })
      .def_prop_ro("size", [](const Cluster& cluster) { return cluster.context.world().size(); })
      .def("broadcast", &broadcast, nb::arg("tensor"), Unlocked())
      .def("gather_bytes", &gather_bytes, nb::arg("bytes"));
}

void define_module_engine(nb::module_& module) {
  using Result = ModuleEngine::Result;
  nb::class_<Result>(module, "UpdateResult")
      .def_ro("step", &Result::step)
      .def_ro("grad_norm", &Result::grad_norm)
      .def_ro("skipped", &Result::skipped)
      .def_ro("stop_requested", &Result::stop_requested);
  nb::enum_<ModuleEngine::Fetching>(module, "Fetching")
      .value("ahead", ModuleEngine::Fetching::ahead)
      .value("on_demand", ModuleEngine::Fetching::on_demand)
      .value("all", ModuleEngine::Fetching::all);
  nb::class_<ModuleEngine>(module, "ModuleEngine")
      .def_static("make", &make_engine, nb::keep_alive<0, 1>(), Unlocked(), nb::arg("cluster"),
                  nb::arg("parameters"), nb::arg("optimizer"), nb::arg("betas").none(),
                  nb::arg("eps").none(), nb::arg("momentum").none(), nb::arg("nesterov"),
                  nb::arg("groups"), nb::arg("dtype"), nb::arg("offload"), nb::arg("nvme_path"),
                  nb::arg("chunk_bytes").none(), nb::arg("window_bytes").none())
      .def("begin_forward", &ModuleEngine::begin_forward, nb::arg("fetching"), Unlocked())
      .def("end_forward", &ModuleEngine::end_forward, Unlocked())
      .def("begin_backward", &ModuleEngine::begin_backward, nb::arg("last"), Unlocked())
      .def("end_backward", &ModuleEngine::end_backward, Unlocked())
      .def(
          "on_unannounced_pass",
          [](ModuleEngine& engine, nb::callable begin) {
            // Held and released with Python's lock.
            const std::shared_ptr<nb::callable> held(new nb::callable(std::move(begin)),
                                                     [](nb::callable* callable) {
                                                       const nb::gil_scoped_acquire locked;
                                                       delete callable;
                                                     });
            engine.on_unannounced_pass([held] {
              const nb::gil_scoped_acquire locked;
              (*held)();
            });
          },
          nb::arg("begin"))
      .def("begin_query", &ModuleEngine::begin_query, Unlocked())
      .def("end_query", &ModuleEngine::end_query, Unlocked())
      .def("begin_evaluation", &ModuleEngine::begin_evaluation, nb::arg("fetching"), Unlocked())
      .def("end_evaluation", &ModuleEngine::end_evaluation, Unlocked())
      .def("discard_gradients", &ModuleEngine::discard_gradients, Unlocked())
      .def("abandon_pass", &ModuleEngine::abandon_pass, Unlocked())
      .def("begin_gathering", &ModuleEngine::begin_gathering, Unlocked())
      .def("end_gathering", &ModuleEngine::end_gathering, Unlocked())
      .def("before_use", &ModuleEngine::before_use, nb::arg("weight"), Unlocked())
      .def("after_use", &ModuleEngine::after_use, nb::arg("weight"), Unlocked())
      .def(
          "is_weight",
          [](const ModuleEngine& engine, const at::Tensor& tensor) {
            return engine.chunks().is_weight(tensor);
          },
          nb::arg("tensor"))
      .def_prop_ro("weights_are_transient", &ModuleEngine::weights_are_transient)
      .def_prop_ro("steps_done", &ModuleEngine::steps_done)
      .def("gradient_norm", &ModuleEngine::gradient_norm, Unlocked())
      .def(
          "update",
          [](ModuleEngine& engine, double learning_rate, double gradient_clip,
             bool stop_requested) {
            return engine.update({.learning_rate = learning_rate,
                                  .gradient_clip = gradient_clip,
                                  .stop_requested = stop_requested});
          },
          nb::arg("learning_rate"), nb::arg("gradient_clip") = 0.0,
          nb::arg("stop_requested") = false, Unlocked());
}

}  // namespace

NB_MODULE(_core, module) {
  module.attr("version") = kVersion;
  nb::set_leak_warnings(false);  // models that are alive when the program ends are no error
  memory::install_allocators();
  define_errors(module);
  define_cluster(module);
  define_module_engine(module);
  define_checkpoints(module);
  define_language_model(module);
  define_runs(module);
  define_weights(module);
}

}  // namespace colossal::python
