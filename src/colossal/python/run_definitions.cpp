#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/python/definitions.h"
#include "colossal/python/training.h"
#include "colossal/run/planned_run.h"
#include "colossal/tune/tuning_method.h"

namespace nb = nanobind;

namespace colossal::python {
namespace {

// Of a step, for the callback.
struct StepReport {
  StepResult result;
  std::optional<double> validation_loss;
};

const tune::TuningMethod& method_of(const std::string& name) {
  std::string known;
  for (const tune::TuningMethod* const method : tune::all_methods()) {
    if (method->name() == name) return *method;
    known += (known.empty() ? "" : ", ") + method->name();
  }
  throw ConfigError(fmt::format("{} is no tuning method; there are {}", name, known));
}

// method: of tuning; "": pretraining.
GivenRun read_run(const std::string& method, const KeySources& sources) {
  return method.empty() ? read_training(sources) : read_tuning(method_of(method), sources);
}

// Whether the user has pressed Ctrl-C. Throws what another handler of a signal raises.
bool take_interrupt() {
  if (PyErr_CheckSignals() == 0) return false;
  if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) throw nb::python_error();
  PyErr_Clear();
  return true;
}

bool calls_for_stop(const nb::object& on_step, const StepReport& report) {
  const int truth = PyObject_IsTrue(on_step(report).ptr());
  if (truth < 0) throw nb::python_error();
  return truth == 1;
}

FinishedRun train_with_callback(const std::string& method, const std::string& file,
                                const std::vector<std::string>& flags, const nb::object& on_step) {
  bool is_interrupted = false;
  const RunCallbacks callbacks{
      .stepped =
          [&](const StepResult& result, const std::optional<double>& validation_loss) {
            if (on_step.is_none()) return false;
            const nb::gil_scoped_acquire locked;
            try {
              return calls_for_stop(on_step, {result, validation_loss});
            } catch (const nb::python_error& error) {
              if (!error.matches(PyExc_KeyboardInterrupt)) throw;
              return is_interrupted = true;
            }
          },
      .interrupted =
          [&] {
            const nb::gil_scoped_acquire locked;
            return is_interrupted = is_interrupted || take_interrupt();
          }};
  FinishedRun finished;
  try {
    const nb::gil_scoped_release unlocked;
    finished = train_in_process(read_run(method, {file, flags}), callbacks);
  } catch (const InterruptedSetUp&) {
    is_interrupted = true;
  }
  if (is_interrupted) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
  return finished;
}

PlannedRun make_plan(const std::string& file, const std::vector<std::string>& flags, int ranks) {
  return plan_run(read_config({file, flags}), ranks);
}

// (key, default, what is computed without one, values, meaning) of each key
using Help = std::tuple<std::string, std::string, std::string, std::string, std::string>;
std::vector<Help> key_helps(const std::string& method) {
  std::vector<Help> helps;
  const auto add = [&](const ConfigSchema& schema) {
    for (const ConfigSchema::KeyHelp& help : schema.key_helps()) {
      helps.emplace_back(help.key, help.default_value, help.computed_default, help.values,
                         help.text);
    }
  };
  if (!method.empty()) {
    add(TuneSchema(method_of(method)).schema);
    return helps;
  }
  RunConfig config;
  ConfigSchema schema;
  describe(schema, config);
  add(schema);
  return helps;
}

std::vector<std::string> tuning_methods() {
  std::vector<std::string> names;
  for (const tune::TuningMethod* const method : tune::all_methods()) {
    names.push_back(method->name());
  }
  return names;
}

int64_t most_bytes_sent(const PlannedRun& planned) {
  int64_t most = 0;
  for (const plan::RankPlan& rank : planned.plan.ranks) most = std::max(most, rank.bytes_sent());
  return most;
}

}  // namespace

void define_runs(nb::module_& module) {
  nb::class_<StepReport>(module, "StepReport")
      .def_prop_ro("step", [](const StepReport& report) { return report.result.step; })
      .def_prop_ro("loss", [](const StepReport& report) { return report.result.loss; })
      .def_prop_ro("grad_norm", [](const StepReport& report) { return report.result.grad_norm; })
      .def_prop_ro("learning_rate",
                   [](const StepReport& report) { return report.result.learning_rate; })
      .def_prop_ro("units", [](const StepReport& report) { return report.result.units; })
      .def_prop_ro("metrics", [](const StepReport& report) { return report.result.metrics; })
      .def_ro("validation_loss", &StepReport::validation_loss);
  nb::class_<FinishedRun>(module, "FinishedRun")
      .def_prop_ro("steps", [](const FinishedRun& run) { return run.summary.steps; })
      .def_prop_ro("loss", [](const FinishedRun& run) { return run.summary.loss; })
      .def_prop_ro("validation_loss",
                   [](const FinishedRun& run) { return run.summary.validation_loss; })
      .def_prop_ro("stopped", [](const FinishedRun& run) { return run.summary.stopped; })
      .def_ro("checkpoint", &FinishedRun::checkpoint)
      .def_ro("log_directory", &FinishedRun::log_directory);
  nb::class_<PlannedRun>(module, "PlannedRun")
      .def_ro("text", &PlannedRun::text)
      .def_prop_ro("json", [](const PlannedRun& planned) { return planned.json.dump(); })
      .def_prop_ro("peak_bytes",
                   [](const PlannedRun& planned) {
                     return planned.plan.rank_with_largest_peak().memory_peak_bytes();
                   })
      .def_prop_ro("bytes_sent", &most_bytes_sent)
      .def_prop_ro("checkpoint_bytes",
                   [](const PlannedRun& planned) { return planned.plan.checkpoint_bytes; })
      .def_prop_ro("seconds", [](const PlannedRun& planned) -> std::optional<double> {
        if (!planned.plan.time) return std::nullopt;
        return planned.plan.time->seconds;
      });
  module.def("train", &train_with_callback, nb::arg("method"), nb::arg("file"), nb::arg("flags"),
             nb::arg("on_step").none());
  module.def("plan", &make_plan, nb::arg("file"), nb::arg("flags"), nb::arg("ranks"),
             nb::call_guard<nb::gil_scoped_release>());
  module.def("key_helps", &key_helps, nb::arg("method"));
  module.def("tuning_methods", &tuning_methods);
}

}  // namespace colossal::python
