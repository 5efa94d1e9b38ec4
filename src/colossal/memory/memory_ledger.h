// Counts the memory of a rank's tensors by kind, where LibTorch allocates and releases it. The
// count is exact, on the CPU and, for dry runs, on meta.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace colossal::memory {

enum class MemoryKind : uint8_t {
  parameters,
  gradients,
  optimizer,      // masters and moments
  activations,    // kept for the backward pass
  gathered,       // weights while they are whole, where ranks rest with a part of them
  communication,  // what collectives send, receive or gather
  other,          // everything else, mostly short-lived: results on their way, scratch of kernels
};
inline constexpr size_t kNumMemoryKinds = 7;
const char* memory_kind_name(MemoryKind kind);

struct BytesByKind {
  std::array<int64_t, kNumMemoryKinds> bytes{};

  int64_t& operator[](MemoryKind kind) { return bytes[static_cast<size_t>(kind)]; }
  int64_t operator[](MemoryKind kind) const { return bytes[static_cast<size_t>(kind)]; }
  int64_t total() const;
  bool operator==(const BytesByKind&) const = default;
};

// A block was allocated (bytes > 0) or released (< 0). One that changes its kind is released from
// one and allocated in the other at the same time.
struct MemoryChange {
  MemoryKind kind = MemoryKind::other;
  int64_t bytes = 0;
  std::chrono::steady_clock::time_point time;
};

// Thread-safe: blocks may be released anywhere, also after the ledger is gone.
class MemoryLedger {
 public:
  MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  BytesByKind live() const;
  BytesByKind at_peak() const;  // when their sum was the largest, the first time
  void reset_peak();            // to what is live

  // Keeps every change from here on, until take_timeline() gives them.
  void keep_timeline();
  std::vector<MemoryChange> take_timeline();
  int64_t num_changes() const;  // kept so far

  // Counts a tensor's memory as `kind` from now on, unless it holds states (parameters, gradients,
  // optimizer), has that kind or one of more weight (activations), or is not counted here.
  void mark(const c10::Storage& storage, MemoryKind kind);

  // Books of one ledger; blocks share them.
  struct Books;

 private:
  friend class MemoryScope;
  std::shared_ptr<Books> books_;
};

// Who counts what the thread allocates that makes this, for a thread that works for it.
class CountingThread {
 public:
  CountingThread();

 private:
  friend class MemoryScope;
  std::shared_ptr<MemoryLedger::Books> books_;
  c10::DeviceType device_;
};

// While one lives, the ledger counts what this thread allocates on a kind of device: the CPU or
// meta. The innermost counts.
class MemoryScope {
 public:
  MemoryScope(const MemoryLedger& ledger, c10::DeviceType device);
  explicit MemoryScope(const CountingThread& as);  // whoever counts there
  MemoryScope();                                   // nobody counts
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  std::shared_ptr<MemoryLedger::Books> books_before_;
  c10::DeviceType device_before_;
};

// While one lives, what this thread allocates is of this kind. Costs nothing while nobody counts.
class MemoryKindScope {
 public:
  explicit MemoryKindScope(MemoryKind kind);
  ~MemoryKindScope();
  MemoryKindScope(const MemoryKindScope&) = delete;
  MemoryKindScope& operator=(const MemoryKindScope&) = delete;

 private:
  MemoryKind before_;
};

// Counts a tensor's memory as `kind` from now on. Does nothing where nobody counts it.
void count_as(const c10::DataPtr& memory, MemoryKind kind);

// Wraps `memory`, `bytes` for a tensor that no allocator of LibTorch made: it counts until its
// release as if this thread had allocated it here.
c10::DataPtr counted(c10::DataPtr memory, int64_t bytes);

// Puts allocators before LibTorch's own for the CPU and meta. They serve the whole process, count
// within a MemoryScope, and give large blocks of the CPU's memory pages of their own (own_pages.h),
// counted or not. Once, before other threads allocate; later calls do nothing.
void install_allocators();

}  // namespace colossal::memory
