// Bytes of tensors that one thread allocated, while they live and at their peak.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace colossal::test {

class CountedMemory {
 public:
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = live_.load(); }

  // Counts what this thread allocates from now on; it may be freed anywhere. One at a time.
  void begin() { counting() = this; }
  static void end() { counting() = nullptr; }

 private:
  friend class CountingAllocator;
  static CountedMemory*& counting() {
    thread_local CountedMemory* memory = nullptr;
    return memory;
  }
  void add(int64_t bytes) {
    const int64_t now = live_ += bytes;
    if (now > peak_) peak_ = now;
  }

  std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

// LibTorch's allocator for the CPU while this lives. Counters must outlive what they count.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~CountingAllocator() override { c10::SetCPUAllocator(before_, kPriority); }

  c10::DataPtr allocate(size_t bytes) override {
    const size_t whole = (bytes + 2 * sizeof(Header) - 1) / sizeof(Header) * sizeof(Header);
    auto* header = static_cast<Header*>(std::aligned_alloc(sizeof(Header), whole));
    header->owner = CountedMemory::counting();
    header->bytes = static_cast<int64_t>(bytes);
    if (header->owner) header->owner->add(header->bytes);
    return {header + 1, header, free_block, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static constexpr uint8_t kPriority = 100;
  struct alignas(64) Header {
    CountedMemory* owner;
    int64_t bytes;
  };

  static void free_block(void* block) {
    auto* header = static_cast<Header*>(block);
    if (header->owner) header->owner->live_ -= header->bytes;
    std::free(header);
  }

  c10::Allocator* before_;
};

}  // namespace colossal::test
