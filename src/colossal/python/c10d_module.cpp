// The extension module colossal._c10d, which makes the process groups of torch.distributed's
// backend "colossal". With torch's own pybind11, whose registry has the types of c10d.
#include <Python.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "colossal/python/process_group.h"

namespace colossal::python {
namespace {

namespace py = pybind11;

// The process groups of this process that exist.
struct MadeGroups {
  std::mutex mutex;
  std::vector<c10::weak_intrusive_ptr<ProcessGroup>> groups;
};

MadeGroups& made_groups() {
  static MadeGroups groups;
  return groups;
}

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
  auto group = c10::make_intrusive<ProcessGroup>(std::move(members));
  MadeGroups& made = made_groups();
  const std::lock_guard lock(made.mutex);
  std::erase_if(made.groups, [](const auto& other) { return other.expired(); });
  made.groups.emplace_back(group);
  return group;
}

// Before Python ends: a thread that then releases a tensor, or calls back, would end the process
// with an error.
void end_all() {
  MadeGroups& made = made_groups();
  const std::lock_guard lock(made.mutex);
  for (const auto& weak : made.groups) {
    if (const auto group = weak.lock()) group->end();
  }
}

}  // namespace

PYBIND11_MODULE(_c10d, module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def("make_process_group", &make_process_group, Unlocked());
  module.def("end_all", &end_all, Unlocked());
}

}  // namespace colossal::python
