#include "colossal/training/step_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "colossal/base/machine.h"
#include "colossal/report/downsample.h"

namespace colossal {
namespace {

using memory::BytesByKind;
using memory::MemoryKind;

constexpr int64_t kPictured = 2;
constexpr size_t kColumns = 100;  // of the chart, with up to four points each

struct Moments {
  std::vector<double> milliseconds, total;
  std::vector<BytesByKind> live;

  void add(double time, const BytesByKind& bytes) {
    if (milliseconds.empty() || milliseconds.back() < time) {
      milliseconds.push_back(time);
      total.emplace_back();
      live.emplace_back();
    }
    total.back() = static_cast<double>(bytes.total());
    live.back() = bytes;
  }
};

std::vector<report::ChartSeries> picture_of(const Moments& moments) {
  const std::vector<size_t> kept =
      report::min_max_indices(moments.milliseconds, moments.total, kColumns);
  std::vector<report::ChartSeries> all;
  for (size_t kind = 0; kind < memory::kNumMemoryKinds; ++kind) {
    report::ChartSeries series{memory_kind_name(static_cast<MemoryKind>(kind)), {}, {}};
    bool occurs = false;
    for (const size_t index : kept) {
      series.x.push_back(moments.milliseconds[index]);
      series.y.push_back(static_cast<double>(moments.live[index].bytes[kind]));
      occurs |= series.y.back() > 0;
    }
    if (occurs) all.push_back(std::move(series));
  }
  return all;
}

}  // namespace

StepMemory::StepMemory(const ParallelContext& context)
    : device_(context.device()), base_bytes_(machine::resident_bytes()) {
  if (context.device().is_cpu()) count_.emplace(context.world().ledger(), context.device().type());
}

int64_t StepMemory::device_peak_bytes() const {
  if (device_.is_cpu()) return 0;
  return c10::getDeviceAllocator(device_.type())
      ->getDeviceStats(device_.index())
      .allocated_bytes[0]
      .peak;
}

void StepMemory::begin_step() {
  ++steps_begun_;
  if (!count_) {
    // Without what was measured, loaded and converted before.
    if (steps_begun_ == 1 && !device_.is_cpu()) {
      c10::getDeviceAllocator(device_.type())->resetPeakStats(device_.index());
    }
    return;
  }
  memory::MemoryLedger& ledger = count_->ledger();
  ledger.reset_peak();
  if (steps_begun_ != kPictured) return;
  at_begin_ = ledger.live();
  begin_ = std::chrono::steady_clock::now();
  ledger.keep_timeline();
}

void StepMemory::end_step() {
  if (!count_) return;
  peak_ = count_->ledger().at_peak();
  if (steps_begun_ != kPictured) return;
  BytesByKind live = at_begin_;
  Moments moments;
  moments.add(0, live);
  for (const memory::MemoryChange& change : count_->ledger().take_timeline()) {
    live[change.kind] += change.bytes;
    // Whole microseconds: more digits would only enlarge the page.
    const auto since = std::chrono::round<std::chrono::microseconds>(change.time - begin_);
    moments.add(static_cast<double>(since.count()) / 1000, live);
  }
  second_step_ = picture_of(moments);
}

}  // namespace colossal
