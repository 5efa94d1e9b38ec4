// Counts the memory of a rank's tensors by kind, when LibTorch allocates and releases it. The count
// is exact, on the CPU and, for dry runs, on meta.
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
  optimizer,      // masters and optimizer states
  activations,    // kept for the backward pass
  gathered,       // whole weights of which the rank stores only a shard, or which are offloaded
  communication,  // buffers of collectives
  other,  // everything else, mostly short-lived: intermediate results, workspaces of kernels
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

// A block was allocated (bytes > 0) or released (bytes < 0). A block that changes its kind is
// released from the old kind and allocated in the new kind at the same time.
struct MemoryChange {
  MemoryKind kind = MemoryKind::other;
  int64_t bytes = 0;
  std::chrono::steady_clock::time_point time;
};

// Thread-safe. Blocks may be released on any thread, even after the ledger is destroyed.
class MemoryLedger {
 public:
  MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  BytesByKind live() const;
  BytesByKind at_peak() const;  // at the first moment when the total was largest
  void reset_peak();            // the peak becomes the live bytes

  // Keeps every change from now on, until take_timeline() returns them.
  void keep_timeline();
  std::vector<MemoryChange> take_timeline();
  int64_t num_changes() const;  // number of changes kept so far

  // Counts a tensor's memory as `kind` from now on if it counts as `other`, or if it counts as
  // communication and `kind` is activations. Does nothing for other kinds, or if this ledger does
  // not count the memory.
  void mark(const c10::Storage& storage, MemoryKind kind);

  // The counts of one ledger; its blocks share them.
  struct Books;

 private:
  friend class MemoryScope;
  std::shared_ptr<Books> books_;
};

// Which ledger counts the allocations of the constructing thread. For a worker thread that
// allocates on its behalf.
class CountingThread {
 public:
  CountingThread();

 private:
  friend class MemoryScope;
  std::shared_ptr<MemoryLedger::Books> books_;
  c10::DeviceType device_;
};

// While this exists, the ledger counts this thread's allocations on one device type, CPU or meta.
// If scopes are nested, only the innermost one counts.
class MemoryScope {
 public:
  MemoryScope(const MemoryLedger& ledger, c10::DeviceType device);
  explicit MemoryScope(const CountingThread& as);  // counted as on that thread
  MemoryScope();                                   // not counted
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  std::shared_ptr<MemoryLedger::Books> books_before_;
  c10::DeviceType device_before_;
};

// While this exists, this thread's allocations count as `kind`. Has no cost if nothing is counted.
class MemoryKindScope {
 public:
  explicit MemoryKindScope(MemoryKind kind);
  ~MemoryKindScope();
  MemoryKindScope(const MemoryKindScope&) = delete;
  MemoryKindScope& operator=(const MemoryKindScope&) = delete;

 private:
  MemoryKind before_;
};

// Counts a tensor's memory as `kind` from now on. Does nothing if no ledger counts the memory.
void count_as(const c10::DataPtr& memory, MemoryKind kind);

// Wraps `memory`, which was not allocated by LibTorch's allocators, for a tensor of `bytes` bytes.
// Until its release, the memory counts as if this thread had allocated it here.
c10::DataPtr counted(c10::DataPtr memory, int64_t bytes);

// Installs allocators in front of LibTorch's own for CPU and meta, for the whole process. They
// count within a MemoryScope, and allocate large CPU blocks with own_pages.h, whether counted or
// not. Call before other threads allocate; later calls have no effect.
void install_allocators();

}  // namespace colossal::memory
