// Counts the bytes of a rank's tensors by kind, as LibTorch allocates and releases them. The count
// is exact: on the CPU, and for dry runs on the meta device.
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
  gathered,       // temporary whole copies of weights that are sharded or offloaded
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

// The allocation (bytes > 0) or release (bytes < 0) of a tensor's memory. A change of kind is
// recorded as a release of the old kind and an allocation of the new kind, with equal times.
struct MemoryChange {
  MemoryKind kind = MemoryKind::other;
  int64_t bytes = 0;
  std::chrono::steady_clock::time_point time;
};

// Thread-safe. Counted memory may be released on any thread, even after the ledger is destroyed.
class MemoryLedger {
 public:
  MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  BytesByKind live() const;
  BytesByKind at_peak() const;  // at the first moment when their total was largest
  void reset_peak();            // forgets the peak: at_peak() begins anew from live()

  // keep_timeline() begins to record every change; take_timeline() ends this and returns the
  // changes.
  void keep_timeline();
  std::vector<MemoryChange> take_timeline();
  int64_t num_changes() const;  // number of changes recorded so far

  // Counts a tensor's memory as `kind` from now on if it counts as MemoryKind::other, or if it
  // counts as communication and `kind` is activations. Otherwise, or if this ledger does not count
  // the memory, does nothing.
  void mark(const c10::Storage& storage, MemoryKind kind);

  // The counts of one ledger, shared with the memory that it counts.
  struct Books;

 private:
  friend class MemoryScope;
  std::shared_ptr<Books> books_;
};

// Captures which ledger counts the constructing thread's allocations, and of which device type, so
// that a MemoryScope on a worker thread can count in the same ledger.
class CountingContext {
 public:
  CountingContext();

 private:
  friend class MemoryScope;
  std::shared_ptr<MemoryLedger::Books> books_;
  c10::DeviceType device_;
};

// While this exists, a ledger counts this thread's allocations on one device type, CPU or meta. If
// scopes are nested, only the innermost one counts. Needs install_allocators(). Destroy on the
// constructing thread.
class MemoryScope {
 public:
  MemoryScope(const MemoryLedger& ledger, c10::DeviceType device);
  explicit MemoryScope(const CountingContext& as);  // as on the thread that constructed `as`
  MemoryScope();                                    // counts nothing
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  std::shared_ptr<MemoryLedger::Books> books_before_;
  c10::DeviceType device_before_;
};

// While this exists, what a ledger counts of this thread's allocations counts as `kind`.
class MemoryKindScope {
 public:
  explicit MemoryKindScope(MemoryKind kind);
  ~MemoryKindScope();
  MemoryKindScope(const MemoryKindScope&) = delete;
  MemoryKindScope& operator=(const MemoryKindScope&) = delete;

 private:
  MemoryKind before_;
};

// Counts a tensor's memory as `kind` from now on, whatever its kind was. Does nothing if no ledger
// counts the memory.
void count_as(const c10::DataPtr& memory, MemoryKind kind);

// For memory that was not allocated by LibTorch's allocators, of a tensor of `bytes` bytes. Returns
// it wrapped, so that until its release it counts like an allocation that this thread makes now;
// unwrapped if nothing counts this thread's allocations on its device.
c10::DataPtr counted(c10::DataPtr memory, int64_t bytes);

// Replaces LibTorch's allocators for CPU and meta, for the whole process, by allocators that count
// within a MemoryScope, allocate large CPU blocks with own_pages.h, whether counted or not, and
// pass all other allocations on to LibTorch's. Call before other threads allocate; later calls have
// no effect.
void install_allocators();

}  // namespace colossal::memory
