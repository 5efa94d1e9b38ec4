// MemoryLedger: counts the bytes of a rank's tensors by kind, as LibTorch allocates and releases
// them on the CPU or, in dry runs, on device meta. The count is exact, not sampled.
// install_allocators() makes LibTorch's allocators count; a MemoryScope says which ledger counts a
// thread's allocations.
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
  parameters,     // working weights, as stored between uses
  gradients,      // gradients of parameters
  optimizer,      // masters and optimizer states
  activations,    // tensors saved for the backward pass
  gathered,       // temporary whole copies of weights that are sharded or offloaded
  communication,  // buffers of communication calls
  other,          // all others, mostly short-lived: intermediate results, workspaces of kernels
};
inline constexpr size_t kNumMemoryKinds = 7;
// Returns the enumerator's name, such as "parameters".
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

// The counts of one rank. Thread-safe. Counted memory may be released on any thread, even after the
// ledger is destroyed.
class MemoryLedger {
 public:
  MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  BytesByKind live() const;  // bytes allocated and not yet released
  // The bytes by kind at the first moment, since the last reset_peak(), when their sum was largest.
  BytesByKind at_peak() const;
  void reset_peak();  // forgets the peak: at_peak() begins anew from live()

  // keep_timeline() begins to record every allocation, release and change of kind. take_timeline()
  // ends the recording and returns the changes in their order.
  void keep_timeline();
  std::vector<MemoryChange> take_timeline();
  int64_t num_changes() const;  // number of changes in the current recording

  // Counts the memory of `storage` as `kind` from now on, if it counts as MemoryKind::other, or if
  // it counts as communication and `kind` is activations. Otherwise, or if this ledger does not
  // count the memory, does nothing.
  void mark(const c10::Storage& storage, MemoryKind kind);

  // The counts of one ledger, shared with the memory that it counts.
  struct Books;

 private:
  friend class MemoryScope;
  std::shared_ptr<Books> books_;
};

// Remembers which ledger counts the constructing thread's allocations, and on which device type. A
// worker thread constructs a MemoryScope from it, and then counts in the same ledger.
class CountingContext {
 public:
  CountingContext();

 private:
  friend class MemoryScope;
  std::shared_ptr<MemoryLedger::Books> books_;
  c10::DeviceType device_;
};

// While this exists, a ledger counts the constructing thread's allocations on one device type, CPU
// or meta. If scopes are nested, only the innermost scope counts. install_allocators() must have
// been called. Destroy this on the constructing thread.
class MemoryScope {
 public:
  MemoryScope(const MemoryLedger& ledger, c10::DeviceType device);
  // Counts in the ledger, and on the device type, that `as` remembers.
  explicit MemoryScope(const CountingContext& as);
  MemoryScope();  // no ledger counts
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  std::shared_ptr<MemoryLedger::Books> books_before_;
  c10::DeviceType device_before_;
};

// While this exists, new allocations of the constructing thread count as `kind`, if a ledger counts
// them. Outside all such scopes they count as MemoryKind::other. Destroy this on the constructing
// thread.
class MemoryKindScope {
 public:
  explicit MemoryKindScope(MemoryKind kind);
  ~MemoryKindScope();
  MemoryKindScope(const MemoryKindScope&) = delete;
  MemoryKindScope& operator=(const MemoryKindScope&) = delete;

 private:
  MemoryKind before_;
};

// Counts the memory of a tensor as `kind` from now on, whatever its kind was. Does nothing if no
// ledger counts the memory.
void count_as(const c10::DataPtr& memory, MemoryKind kind);

// Makes memory count that was not allocated by LibTorch's allocators. Returns `memory` with a
// deleter that ends the count: until then, `bytes` bytes count like an allocation that this thread
// makes now. Returns `memory` unchanged if no ledger counts this thread's allocations on the
// memory's device type.
c10::DataPtr counted(c10::DataPtr memory, int64_t bytes);

// Replaces LibTorch's allocators for the CPU and for device meta in the whole process. The new
// allocators count within a MemoryScope, and allocate large CPU blocks by allocate_pages()
// (own_pages.h), whether counted or not. They pass all other allocations on to LibTorch's
// allocators. Call this before other threads allocate; later calls have no effect.
void install_allocators();

}  // namespace colossal::memory
