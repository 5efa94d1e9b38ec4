#include "tests/support/emulated_gpu/allocators.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/emulated_gpu/current.h"
#include "tests/support/emulated_gpu/memory.h"
#include "tests/support/emulated_gpu/mistakes.h"
#include "tests/support/emulated_gpu/settings.h"
#include "tests/support/emulated_gpu/stream.h"

namespace colossal::emulated_gpu {
namespace {

constexpr int kPoison = 0xFF;  // a NaN in each floating-point type

Bytes bytes_of(const void* begin, size_t size) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  return {address, address + size};
}

bool all_done(const std::vector<MarkPointer>& marks) {
  return std::all_of(marks.begin(), marks.end(),
                     [](const MarkPointer& mark) { return mark->is_done(); });
}

struct Block {
  char* begin = nullptr;
  size_t size = 0;
  int device = 0;
  int64_t stream = 0;
  std::set<int64_t> used_by = {};  // other streams
};

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const int device = current_device();
    const c10::Device where(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
    if (size == 0) return {nullptr, nullptr, &free_block, where};
    constexpr size_t kUnit = 512;
    const size_t rounded = (size + kUnit - 1) / kUnit * kUnit;
    const std::lock_guard lock(mutex_);
    take_back_used();
    std::vector<Block>& free = free_[{device, current_stream_id(device), rounded}];
    Block block;
    if (free.empty()) {
      char* const begin = device_memory(device).take(rounded);
      TORCH_CHECK(begin, "CUDA out of memory. Tried to allocate ", size, " bytes on emulated GPU ",
                  device);
      block = {begin, rounded, device, current_stream_id(device)};
    } else {
      block = std::move(free.back());
      free.pop_back();
    }
    char* const begin = block.begin;
    live_.emplace(begin, std::move(block));
    bytes_[device] += static_cast<int64_t>(rounded);
    peaks_[device] = std::max(peaks_[device], bytes_[device]);
    return {begin, begin, &free_block, where};
  }

  void release(void* begin) {
    if (!begin) return;
    const std::lock_guard lock(mutex_);
    Block block = std::move(live_.extract(static_cast<char*>(begin)).mapped());
    bytes_[block.device] -= static_cast<int64_t>(block.size);
    if (block.used_by.empty()) {
      poison(block);
      give_back(std::move(block));
      return;
    }
    std::vector<MarkPointer> marks;
    for (const int64_t id : block.used_by) marks.push_back(stream(block.device, id).record());
    marks.push_back(stream(block.device, block.stream).record());
    block.used_by.clear();
    used_.push_back({std::move(block), std::move(marks)});
  }

  void record_use(const void* begin, int64_t stream) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<char*>(const_cast<void*>(begin)));
    if (found != live_.end() && found->second.stream != stream) {
      found->second.used_by.insert(stream);
    }
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& block, c10::Stream stream) override {
    record_use(block.get(), stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = bytes_[device];
    stats.allocated_bytes[0].peak = peaks_[device];
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    peaks_[device] = bytes_[device];
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex_);
    return {settings().memory - static_cast<size_t>(bytes_[device]), settings().memory};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t size) const override {
    launch_on_current({.name = "copy_data",
                       .reads = {bytes_of(from, size)},
                       .writes = {bytes_of(to, size)},
                       .run = [to = for_kernels(to), from = for_kernels(from), size] {
                         std::memcpy(to, from, size);
                       }});
  }

 private:
  static void free_block(void* begin);

  // Overwrites a block, so that who still reads it computes nonsense, and is found: this is a write
  // like any other.
  static void poison(const Block& block) {
    stream(block.device, block.stream)
        .launch({.name = "the end of a tensor's life",
                 .writes = {bytes_of(block.begin, block.size)},
                 .run = [memory = for_kernels(block.begin), size = block.size] {
                   std::memset(memory, kPoison, size);
                 }});
  }
  void give_back(Block block) {
    free_[{block.device, block.stream, block.size}].push_back(std::move(block));
  }
  // Makes blocks free of which all kernels of other streams are done.
  void take_back_used() {
    for (auto used = used_.begin(); used != used_.end();) {
      if (!all_done(used->second)) {
        ++used;
        continue;
      }
      forget_accesses(bytes_of(used->first.begin, used->first.size));
      poison(used->first);
      give_back(std::move(used->first));
      used = used_.erase(used);
    }
  }

  std::mutex mutex_;
  std::map<std::tuple<int, int64_t, size_t>, std::vector<Block>> free_;  // by device, stream, size
  std::map<char*, Block> live_;
  std::deque<std::pair<Block, std::vector<MarkPointer>>> used_;  // freed, but perhaps in use
  int64_t bytes_[kMaxDevices] = {}, peaks_[kMaxDevices] = {};
};

DeviceAllocator& own_device_allocator() {
  static auto* const made = new DeviceAllocator;
  return *made;
}

void DeviceAllocator::free_block(void* begin) {
  own_device_allocator().release(begin);
}

// Pinned blocks are whole pages, so that the pages of a block can be locked while a copy uses it.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) return {nullptr, nullptr, &free_block, c10::kCPU};
    size_t rounded = kPage;
    while (rounded < size) rounded *= 2;
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(), [&](const Pinned& block) {
      return block.size == rounded && all_done(block.marks);
    });
    Pinned block;
    if (found != free_.end()) {
      block = std::move(*found);
      free_.erase(found);
      // Copies that are done are known to be, as LibTorch's allocator has asked.
      for (const MarkPointer& mark : block.marks) host_asks(mark);
      block.marks.clear();
      forget_accesses(bytes_of(block.begin, block.size));
    } else {
      block = {pinned_memory().take(rounded), rounded, {}, {}};
      TORCH_CHECK(block.begin, "no pinned memory left for ", size, " bytes");
    }
    char* const begin = block.begin;
    live_.emplace(begin, std::move(block));
    return {begin, begin, &free_block, c10::kCPU};
  }

  void release(void* begin) {
    if (!begin) return;
    const std::lock_guard lock(mutex_);
    Pinned block = std::move(live_.extract(static_cast<char*>(begin)).mapped());
    for (const auto& [device, id] : block.used_by) {
      block.marks.push_back(stream(device, id).record());
    }
    block.used_by.clear();
    free_.push_back(std::move(block));
  }

  // cudaHostAlloc() and cudaFreeHost(): whole pages, null if there are none left. The second
  // overwrites them, which is a mistake like any other if a copy may still use them.
  void* host_alloc(size_t size) {
    const size_t rounded = (std::max<size_t>(size, 1) + kPage - 1) / kPage * kPage;
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(allocated_free_.begin(), allocated_free_.end(),
                                    [&](const Pinned& block) { return block.size == rounded; });
    Pinned block;
    if (found != allocated_free_.end()) {
      block = std::move(*found);
      allocated_free_.erase(found);
    } else {
      block = {pinned_memory().take(rounded), rounded, {}, {}};
      if (!block.begin) return nullptr;
    }
    char* const begin = block.begin;
    live_.emplace(begin, std::move(block));
    return begin;
  }
  void free_host(void* begin) {
    const std::lock_guard lock(mutex_);
    Pinned block = std::move(live_.extract(static_cast<char*>(begin)).mapped());
    std::memset(block.begin, kPoison, block.size);
    forget_accesses(bytes_of(block.begin, block.size));
    block.used_by.clear();
    allocated_free_.push_back(std::move(block));
  }

  bool has(const void* address) {
    const std::lock_guard lock(mutex_);
    return block_of(address) != live_.end();
  }

  bool record_event(void* address, void* /*context*/, c10::Stream stream) override {
    const std::lock_guard lock(mutex_);
    const auto block = block_of(address);
    if (block == live_.end()) return false;
    block->second.used_by.insert({stream.device_index(), stream.id()});
    return true;
  }

  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t size) const override {
    std::memcpy(to, from, size);
  }

 private:
  struct Pinned {
    char* begin = nullptr;
    size_t size = 0;
    std::set<std::pair<int, int64_t>> used_by = {};  // device and stream
    std::vector<MarkPointer> marks = {};             // of those, when the block was freed
  };
  static void free_block(void* begin);

  std::map<char*, Pinned>::iterator block_of(const void* address) {
    auto after = live_.upper_bound(static_cast<char*>(const_cast<void*>(address)));
    if (after == live_.begin()) return live_.end();
    --after;
    return address < after->first + after->second.size ? after : live_.end();
  }

  std::mutex mutex_;
  std::map<char*, Pinned> live_;
  std::deque<Pinned> free_;
  std::deque<Pinned> allocated_free_;  // of host_alloc()
};

PinnedAllocator& own_pinned_allocator() {
  static auto* const made = new PinnedAllocator;
  return *made;
}

void PinnedAllocator::free_block(void* begin) {
  own_pinned_allocator().release(begin);
}

[[maybe_unused]] const bool registered = [] {
  c10::SetAllocator(c10::kCUDA, &device_allocator(), /*priority=*/1);
  at::setHostAllocator(at::kCUDA, &pinned_allocator(), /*priority=*/1);
  return true;
}();

}  // namespace

c10::DeviceAllocator& device_allocator() {
  return own_device_allocator();
}

void record_use(const void* block, const c10::Stream& stream) {
  own_device_allocator().record_use(block, stream.id());
}

at::HostAllocator& pinned_allocator() {
  return own_pinned_allocator();
}

bool is_pinned(const void* address) {
  return own_pinned_allocator().has(address);
}

}  // namespace colossal::emulated_gpu

// CUDA's runtime, as programs find it by name.
extern "C" {
int cudaHostAlloc(void** memory, size_t bytes, unsigned flags);
int cudaFreeHost(void* memory);
int cudaGetLastError();

int cudaHostAlloc(void** memory, size_t bytes, unsigned /*flags*/) {
  constexpr int kNoMemory = 2;
  *memory = colossal::emulated_gpu::own_pinned_allocator().host_alloc(bytes);
  return *memory ? 0 : kNoMemory;
}

int cudaFreeHost(void* memory) {
  colossal::emulated_gpu::own_pinned_allocator().free_host(memory);
  return 0;
}

int cudaGetLastError() {
  return 0;
}
}
