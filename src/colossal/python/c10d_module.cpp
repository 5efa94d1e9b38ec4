// The extension module colossal._c10d, which makes the process groups of torch.distributed's
// backend "colossal". With torch's own pybind11, whose registry has the types of c10d.
#include <Python.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <numeric>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "colossal/python/process_group.h"

namespace colossal::python {
namespace {

namespace py = pybind11;

c10::intrusive_ptr<c10d::Backend> make_process_group(
    const c10d::DistributedBackendOptions& options) {
  GroupMembers members{
      .store = options.store,
      .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout),
      .name = "process group " + options.group_id,
      .ranks = {options.global_ranks_in_group.begin(), options.global_ranks_in_group.end()},
      .place = options.group_rank};
  if (members.ranks.empty()) {  // the group of all ranks
    members.ranks.resize(options.group_size);
    std::iota(members.ranks.begin(), members.ranks.end(), 0);
  }
  return c10::make_intrusive<ProcessGroup>(std::move(members));
}

}  // namespace

PYBIND11_MODULE(_c10d, module) {
  module.def("make_process_group", &make_process_group, py::call_guard<py::gil_scoped_release>());
}

}  // namespace colossal::python
