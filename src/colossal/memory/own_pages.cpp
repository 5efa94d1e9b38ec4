#include "colossal/memory/own_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace colossal::memory {
namespace {

// Moving the pages of a smaller piece costs as much as new pages.
constexpr size_t kLeastPiece = size_t{256} << 10;

// Part of a block that is one mapping of the kernel, so that mremap() can move it.
struct Piece {
  char* begin;
  size_t bytes;
};

using Pieces = std::vector<Piece>;  // of a block: each begins where the previous one ends

size_t size_of(const Pieces& pieces) {
  return pieces.back().begin + pieces.back().bytes - pieces.front().begin;
}

size_t whole_pages(size_t bytes) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

class Pages {
 public:
  void* allocate(size_t bytes);
  void free(void* block);

 private:
  // Returns the newest freed block of this size, or an empty one.
  Pieces take(size_t bytes);
  // Returns a new block. Takes `moved` bytes of pages from the oldest freed blocks: moves them to
  // the block's beginning, or unmaps them if a piece is too small.
  Pieces make(size_t bytes, size_t moved);
  // Cuts up to `bytes` bytes off the end of the oldest freed block's last piece.
  Piece cut_oldest(size_t bytes);
  void release(const Piece& piece) { munmap(piece.begin, piece.bytes); }

  std::mutex mutex_;
  std::unordered_map<void*, Pieces> used_blocks_;
  std::deque<Pieces> waiting_;  // freed blocks, oldest first
  size_t waiting_bytes_ = 0, used_bytes_ = 0, most_used_bytes_ = 0;
};

void* Pages::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t used = used_bytes_ + bytes, most_used = std::max(most_used_bytes_, used);
  Pieces block = take(bytes);
  // Used and kept blocks together must not exceed the largest total of used blocks: what would
  // exceed it is taken from kept blocks.
  if (block.empty()) block = make(bytes, std::max(used + waiting_bytes_, most_used) - most_used);
  void* const begin = block.front().begin;
  used_blocks_.emplace(begin, std::move(block));
  used_bytes_ = used;
  most_used_bytes_ = most_used;
  return begin;
}

void Pages::free(void* block) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(used_blocks_.extract(block).mapped()));
  const size_t bytes = size_of(waiting_.back());
  used_bytes_ -= bytes;
  waiting_bytes_ += bytes;
}

Pieces Pages::take(size_t bytes) {
  const auto found = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                  [&](const Pieces& block) { return size_of(block) == bytes; });
  if (found == waiting_.rend()) return {};
  Pieces block = std::move(*found);
  waiting_.erase(std::next(found).base());
  waiting_bytes_ -= bytes;
  return block;
}

Pieces Pages::make(size_t bytes, size_t moved) {
  void* const begin =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  Pieces block;
  Piece rest{static_cast<char*>(begin), bytes};
  while (moved > 0) {
    const Piece piece = cut_oldest(moved);
    moved -= piece.bytes;
    if (piece.bytes < kLeastPiece ||
        mremap(piece.begin, piece.bytes, piece.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, rest.begin) ==
            MAP_FAILED) {
      release(piece);
      continue;
    }
    block.push_back({rest.begin, piece.bytes});
    rest = {rest.begin + piece.bytes, rest.bytes - piece.bytes};
  }
  if (rest.bytes > 0) block.push_back(rest);
  return block;
}

Piece Pages::cut_oldest(size_t bytes) {
  Pieces& block = waiting_.front();
  Piece& last = block.back();
  const size_t size = std::min(bytes, last.bytes);
  last.bytes -= size;
  waiting_bytes_ -= size;
  const Piece cut{last.begin + last.bytes, size};
  if (last.bytes == 0) block.pop_back();
  if (block.empty()) waiting_.pop_front();
  return cut;
}

// Never destroyed, because blocks may live as long as the process.
Pages& pages() {
  static auto* const pages = new Pages;
  return *pages;
}

}  // namespace

void* allocate_pages(size_t bytes) {
  return pages().allocate(whole_pages(bytes));
}

void free_pages(void* block) {
  pages().free(block);
}

}  // namespace colossal::memory
