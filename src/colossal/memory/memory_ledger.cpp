#include "colossal/memory/memory_ledger.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::memory {

struct MemoryLedger::Books {
  mutable std::mutex mutex;
  BytesByKind live, at_peak;
  int64_t total = 0, peak = 0;
  bool keeps_timeline = false;
  std::vector<MemoryChange> timeline;

  // Call with the mutex held.
  void change(MemoryKind kind, int64_t bytes) {
    live[kind] += bytes;
    total += bytes;
    if (keeps_timeline) timeline.push_back({kind, bytes});
  }
  void note_peak() {
    if (total <= peak) return;
    peak = total;
    at_peak = live;
  }
};

namespace {

using Books = MemoryLedger::Books;

thread_local std::shared_ptr<Books> counting_books;
thread_local c10::DeviceType counted_device = c10::kCPU;
thread_local MemoryKind current_kind = MemoryKind::other;

// What stands behind the memory of a counted tensor.
struct CountedBlock {
  std::shared_ptr<Books> books;
  int64_t bytes;
  MemoryKind kind;
  c10::DataPtr memory;
};

void release_block(void* context) {
  const std::unique_ptr<CountedBlock> block(static_cast<CountedBlock*>(context));
  const std::lock_guard lock(block->books->mutex);
  block->books->change(block->kind, -block->bytes);
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::DeviceType device) : device_(device) {
    constexpr uint8_t kPriority = 50;
    under_ = c10::GetAllocator(device);
    c10::SetAllocator(device, this, kPriority);
  }

  c10::DataPtr allocate(size_t size) override {
    c10::DataPtr memory = under_->allocate(size);
    if (!counting_books || device_ != counted_device || size == 0) return memory;
    void* const data = memory.get();
    const auto bytes = static_cast<int64_t>(size);
    auto block =
        std::make_unique<CountedBlock>(counting_books, bytes, current_kind, std::move(memory));
    {
      const std::lock_guard lock(block->books->mutex);
      block->books->change(block->kind, bytes);
      block->books->note_peak();
    }
    return {data, block.release(), release_block, c10::Device(device_)};
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    under_->copy_data(to, from, bytes);
  }

 private:
  c10::DeviceType device_;
  c10::Allocator* under_;
};

}  // namespace

const char* memory_kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::parameters:
      return "parameters";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::optimizer:
      return "optimizer";
    case MemoryKind::activations:
      return "activations";
    case MemoryKind::gathered:
      return "gathered";
    case MemoryKind::communication:
      return "communication";
    case MemoryKind::other:
      return "other";
  }
  COLOSSAL_CHECK(false, "unknown kind {}", static_cast<int>(kind));
}

int64_t BytesByKind::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

MemoryLedger::MemoryLedger(Timeline timeline) : books_(std::make_shared<Books>()) {
  books_->keeps_timeline = timeline == Timeline::kept;
}

BytesByKind MemoryLedger::live() const {
  const std::lock_guard lock(books_->mutex);
  return books_->live;
}

BytesByKind MemoryLedger::at_peak() const {
  const std::lock_guard lock(books_->mutex);
  return books_->at_peak;
}

void MemoryLedger::reset_peak() {
  const std::lock_guard lock(books_->mutex);
  books_->peak = books_->total;
  books_->at_peak = books_->live;
}

std::vector<MemoryChange> MemoryLedger::timeline() const {
  const std::lock_guard lock(books_->mutex);
  return books_->timeline;
}

int64_t MemoryLedger::num_changes() const {
  const std::lock_guard lock(books_->mutex);
  return static_cast<int64_t>(books_->timeline.size());
}

void MemoryLedger::mark(const c10::Storage& storage, MemoryKind kind) {
  const c10::DataPtr& memory = storage.data_ptr();
  if (memory.get_deleter() != release_block || !memory.get_context()) return;
  auto* const block = static_cast<CountedBlock*>(memory.get_context());
  if (block->books != books_) return;
  const std::lock_guard lock(books_->mutex);
  const bool replaced =
      block->kind == MemoryKind::other ||
      (block->kind == MemoryKind::communication && kind == MemoryKind::activations);
  if (!replaced || block->kind == kind) return;
  books_->change(block->kind, -block->bytes);
  books_->change(kind, block->bytes);
  block->kind = kind;
}

MemoryScope::MemoryScope(const MemoryLedger& ledger, c10::DeviceType device)
    : books_before_(std::exchange(counting_books, ledger.books_)),
      device_before_(std::exchange(counted_device, device)) {}

MemoryScope::MemoryScope()
    : books_before_(std::exchange(counting_books, nullptr)), device_before_(counted_device) {}

MemoryScope::~MemoryScope() {
  counting_books = std::move(books_before_);
  counted_device = device_before_;
}

MemoryKindScope::MemoryKindScope(MemoryKind kind) : before_(std::exchange(current_kind, kind)) {}

MemoryKindScope::~MemoryKindScope() {
  current_kind = before_;
}

void install_counting_allocators() {
  // They live as long as the process, as what they have given may.
  static const auto* const allocators = new std::array<CountingAllocator, 2>{
      CountingAllocator(c10::kCPU), CountingAllocator(c10::kMeta)};
  static_cast<void>(allocators);
}

}  // namespace colossal::memory
