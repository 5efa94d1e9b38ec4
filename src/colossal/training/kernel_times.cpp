#include "colossal/training/kernel_times.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace colossal {
namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::profiler::impl::ActivityType;

constexpr size_t kLines = 25;

}  // namespace

KernelTimes::KernelTimes(c10::Device gpu) : gpu_(gpu) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
}

KernelTimes::~KernelTimes() {
  if (records_) torch::autograd::profiler::disableProfiler();
}

std::string KernelTimes::stop(double milliseconds, int64_t steps) {
  c10::impl::VirtualGuardImpl(gpu_.type()).synchronizeDevice(gpu_.index());
  records_ = false;
  const auto result = torch::autograd::profiler::disableProfiler();
  struct Line {
    int64_t calls = 0;
    double time = 0;
  };
  std::map<std::string, Line> lines;
  double total = 0;
  for (const KinetoEvent& event : result->events()) {
    if (event.deviceType() != c10::kCUDA) continue;
    Line& line = lines[event.name()];
    const double time = static_cast<double>(event.durationNs()) / 1e6;
    ++line.calls;
    line.time += time;
    total += time;
  }
  if (lines.empty()) return "no kernels of the GPU were recorded: this LibTorch has no CUPTI\n";
  std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  if (sorted.size() > kLines) sorted.resize(kLines);
  std::string text = fmt::format("{:<56} {:>8} {:>12} {:>7}\n", "kernel of the GPU", "calls",
                                 "ms a step", "share");
  for (const auto& [name, line] : sorted) {
    text +=
        fmt::format("{:<56} {:>8} {:>12.3f} {:>6.1f}%\n", name.substr(0, 56), line.calls / steps,
                    line.time / static_cast<double>(steps), 100 * line.time / milliseconds);
  }
  return text + fmt::format("{:<56} {:>8} {:>12.3f} {:>6.1f}%\n", "(all, on all streams)", "",
                            total / static_cast<double>(steps), 100 * total / milliseconds);
}

}  // namespace colossal
