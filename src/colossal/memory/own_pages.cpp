#include "colossal/memory/own_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <new>

namespace colossal::memory {
namespace {

struct FreeBlock {
  void* begin;
  size_t bytes;
};

// Blocks that wait for the next of their size, oldest first.
struct Waiting {
  std::mutex mutex;
  std::deque<FreeBlock> blocks;
  size_t bytes = 0;
  size_t used = 0, most_used = 0;  // in blocks that do not wait

  // Null where none has this size. Call this with the mutex held.
  void* take(size_t of_bytes) {
    const auto block = std::find_if(blocks.rbegin(), blocks.rend(),
                                    [&](const FreeBlock& b) { return b.bytes == of_bytes; });
    if (block == blocks.rend()) return nullptr;
    void* const begin = block->begin;
    bytes -= of_bytes;
    blocks.erase(std::next(block).base());
    return begin;
  }
};

// It lives as long as the process, as blocks may.
Waiting& waiting() {
  static auto* const waiting = new Waiting;
  return *waiting;
}

}  // namespace

void* allocate_pages(size_t bytes) {
  Waiting& free = waiting();
  const std::lock_guard lock(free.mutex);
  const size_t used = free.used + bytes, most_used = std::max(free.most_used, used);
  void* block = free.take(bytes);
  if (!block) {
    while (used + free.bytes > most_used) {
      munmap(free.blocks.front().begin, free.blocks.front().bytes);
      free.bytes -= free.blocks.front().bytes;
      free.blocks.pop_front();
    }
    block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) throw std::bad_alloc();
  }
  free.used = used;
  free.most_used = most_used;
  return block;
}

void free_pages(void* block, size_t bytes) {
  Waiting& free = waiting();
  const std::lock_guard lock(free.mutex);
  free.used -= bytes;
  free.bytes += bytes;
  free.blocks.push_back({block, bytes});
}

}  // namespace colossal::memory
