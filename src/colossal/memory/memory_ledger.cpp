#include "colossal/memory/memory_ledger.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/memory/own_pages.h"

namespace colossal::memory {

struct MemoryLedger::Books {
  mutable std::mutex mutex;
  BytesByKind live, at_peak;
  int64_t total = 0, peak = 0;
  bool keeps_timeline = false;
  std::vector<MemoryChange> timeline;

  using Time = std::chrono::steady_clock::time_point;
  // The caller of these functions holds the mutex.
  Time now() const { return keeps_timeline ? std::chrono::steady_clock::now() : Time(); }
  void change(MemoryKind kind, int64_t bytes, Time time) {
    live[kind] += bytes;
    total += bytes;
    if (keeps_timeline) timeline.push_back({kind, bytes, time});
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

// Header before the memory of a tensor that is counted or large. The tensor begins at the next
// multiple of 64 bytes in the same allocation. If aligned memory were requested, glibc before 2.38
// would skip free blocks that just fit, and a step's peak would exceed the bytes of its tensors by
// up to a sixth.
struct Block {
  std::shared_ptr<Books> books;  // null: not counted
  int64_t bytes;
  MemoryKind kind;
  bool maps;  // allocated by allocate_pages(), not by malloc()
  std::unique_ptr<c10::DataPtr>
      elsewhere;  // memory of another allocator; then none follows the header
};

void release_block(void* context) {
  auto* const block = static_cast<Block*>(context);
  if (block->books) {
    const std::lock_guard lock(block->books->mutex);
    block->books->change(block->kind, -block->bytes, block->books->now());
  }
  const bool maps = block->maps;
  std::destroy_at(block);
  if (maps) {
    free_pages(context);
  } else {
    std::free(context);
  }
}

// Allocates a header with `memory` bytes behind it: 0 for meta tensors.
Block* make_block(std::shared_ptr<Books> books, int64_t bytes, MemoryKind kind, size_t memory) {
  const size_t size = sizeof(Block) + memory;
  const bool maps = size >= kLargeBlock;
  void* const begin = maps ? allocate_pages(size) : std::malloc(size);
  if (!begin) throw std::bad_alloc();
  return std::construct_at(static_cast<Block*>(begin), std::move(books), bytes, kind, maps,
                           nullptr);
}

void count(const Block& block) {
  const std::lock_guard lock(block.books->mutex);
  block.books->change(block.kind, block.bytes, block.books->now());
  block.books->note_peak();
}

// The headers of CPU tensors, by the address of the tensor's memory. LibTorch's oneDNN frees memory
// by its address alone, whether or not that memory is counted.
class BlocksByMemory {
 public:
  void add(void* memory, Block* block) {
    const std::lock_guard lock(mutex_);
    blocks_.emplace(memory, block);
  }
  // Returns null if LibTorch's own allocator made it.
  Block* find(void* memory) const {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    return found == blocks_.end() ? nullptr : found->second;
  }
  Block* remove(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.extract(memory);
    return found.empty() ? nullptr : found.mapped();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<void*, Block*> blocks_;
};

// Never destroyed, because the memory may live as long as the process.
BlocksByMemory& blocks_by_memory() {
  static auto* const blocks = new BlocksByMemory;
  return *blocks;
}

c10::DeleterFnPtr release_by_libtorch = nullptr;  // deleter of LibTorch's CPU allocator

void release_memory(void* memory) {
  if (Block* const block = blocks_by_memory().remove(memory)) {
    release_block(block);
  } else {
    release_by_libtorch(memory);
  }
}

// Returns null if LibTorch's own allocator made it.
Block* block_of(const c10::DataPtr& memory) {
  if (memory.get_deleter() == release_memory) {
    return blocks_by_memory().find(memory.get_context());
  }
  if (memory.get_deleter() != release_block) return nullptr;
  return static_cast<Block*>(memory.get_context());
}

// The caller holds the books' mutex.
void recount(Block& block, MemoryKind kind) {
  if (block.kind == kind) return;
  Books& books = *block.books;
  const Books::Time time = books.now();
  books.change(block.kind, -block.bytes, time);
  books.change(kind, block.bytes, time);
  block.kind = kind;
}

void* memory_behind(Block* block) {
  constexpr uintptr_t kAlignment = c10::gAlignment;
  const auto end = reinterpret_cast<uintptr_t>(block + 1);
  return reinterpret_cast<void*>((end + kAlignment - 1) / kAlignment * kAlignment);
}

// Allocates what is counted, and large blocks even if they are not counted. LibTorch's allocator
// does the rest. The context of a DataPtr to CPU memory is the memory's address, and one deleter
// releases all CPU memory: raw_allocate(), by which oneDNN allocates its scratch, requires both.
class Allocator final : public c10::Allocator {
 public:
  explicit Allocator(c10::DeviceType device) : device_(device), under_(c10::GetAllocator(device)) {
    if (is_real()) {
      release_by_libtorch = under_->raw_deleter();
      COLOSSAL_CHECK(release_by_libtorch, "the CPU's allocator has no raw interface");
    }
    constexpr uint8_t kPriority = 50;
    c10::SetAllocator(device, this, kPriority);
  }

  c10::DataPtr allocate(size_t size) override {
    const bool counts = counting_books && device_ == counted_device && size > 0;
    if (!counts && !(is_real() && size >= kLargeBlock)) {
      c10::DataPtr memory = under_->allocate(size);
      if (is_real()) {
        COLOSSAL_CHECK(memory.compare_exchange_deleter(release_by_libtorch, release_memory),
                       "the CPU's allocator gave memory that its raw deleter does not release");
      }
      return memory;
    }
    Block* const block = make_block(counts ? counting_books : nullptr, static_cast<int64_t>(size),
                                    current_kind, is_real() ? size + c10::gAlignment : 0);
    if (counts) count(*block);
    if (!is_real()) return {nullptr, block, release_block, c10::Device(device_)};
    void* const memory = memory_behind(block);
    blocks_by_memory().add(memory, block);
    return {memory, memory, release_memory, c10::Device(device_)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return is_real() ? release_memory : nullptr; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    under_->copy_data(to, from, bytes);
  }

 private:
  bool is_real() const { return device_ == c10::kCPU; }

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

MemoryLedger::MemoryLedger() : books_(std::make_shared<Books>()) {}

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

void MemoryLedger::keep_timeline() {
  const std::lock_guard lock(books_->mutex);
  books_->keeps_timeline = true;
}

std::vector<MemoryChange> MemoryLedger::take_timeline() {
  const std::lock_guard lock(books_->mutex);
  books_->keeps_timeline = false;
  return std::exchange(books_->timeline, {});
}

int64_t MemoryLedger::num_changes() const {
  const std::lock_guard lock(books_->mutex);
  return static_cast<int64_t>(books_->timeline.size());
}

void MemoryLedger::mark(const c10::Storage& storage, MemoryKind kind) {
  Block* const block = block_of(storage.data_ptr());
  if (!block || block->books != books_) return;
  const std::lock_guard lock(books_->mutex);
  const bool replaced =
      block->kind == MemoryKind::other ||
      (block->kind == MemoryKind::communication && kind == MemoryKind::activations);
  if (replaced) recount(*block, kind);
}

void count_as(const c10::DataPtr& memory, MemoryKind kind) {
  Block* const block = block_of(memory);
  if (!block || !block->books) return;
  const std::lock_guard lock(block->books->mutex);
  recount(*block, kind);
}

c10::DataPtr counted(c10::DataPtr memory, int64_t bytes) {
  if (!counting_books || memory.device().type() != counted_device) return memory;
  Block* const block = make_block(counting_books, bytes, current_kind, 0);
  count(*block);
  void* const begin = memory.get();
  const c10::Device device = memory.device();
  block->elsewhere = std::make_unique<c10::DataPtr>(std::move(memory));
  return {begin, block, release_block, device};
}

MemoryScope::MemoryScope(const MemoryLedger& ledger, c10::DeviceType device)
    : books_before_(std::exchange(counting_books, ledger.books_)),
      device_before_(std::exchange(counted_device, device)) {}

CountingContext::CountingContext() : books_(counting_books), device_(counted_device) {}

MemoryScope::MemoryScope(const CountingContext& as)
    : books_before_(std::exchange(counting_books, as.books_)),
      device_before_(std::exchange(counted_device, as.device_)) {}

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

void install_allocators() {
  // Never destroyed, because their memory may live as long as the process.
  static const auto* const allocators =
      new std::array<Allocator, 2>{Allocator(c10::kCPU), Allocator(c10::kMeta)};
  static_cast<void>(allocators);
}

}  // namespace colossal::memory
