// Asynchronous transfers between memory and a file, for SwapFile (swap_file.h). There are two kinds
// of queues. One uses io_uring. The other uses threads that call pread and pwrite, for kernels and
// containers that refuse io_uring.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colossal/io/file.h"

namespace colossal::io {

// Transfers are divided into blocks of kTransferBlock bytes. The io_uring queue has at most
// kTransferDepth blocks in flight, 32 MiB in all. The bandwidth grows with the bytes in flight; in
// measurements it stopped growing at 16 MiB. Larger blocks cost less CPU time. For direct I/O,
// kTransferBlock must be a multiple of kSwapBlock (swap_file.h). It need not equal kSwapPiece, the
// unit of checksums.
inline constexpr int64_t kTransferBlock = int64_t{1} << 20;
inline constexpr int kTransferDepth = 32;
// Number of threads of the thread queue. Each has one block in flight and sleeps in the kernel
// meanwhile, so more threads than cores do no harm.
inline constexpr int kTransferThreads = 16;

enum class Direction { read, write };

// A transfer between `memory` and the bytes of the file from `offset` on. Direction::read fills the
// memory, Direction::write the file. The memory must stay valid until finished() is true. For
// direct I/O, the offset and the memory's address and size must be multiples of kSwapBlock.
class FileTransfer {
 public:
  FileTransfer(Direction direction, int64_t offset, std::span<std::byte> memory)
      : direction(direction), offset(offset), memory(memory), waiting_(memory) {}

  const Direction direction;
  const int64_t offset;
  const std::span<std::byte> memory;  // not modified by a write

  // Whether the transfer has ended, with or without an error.
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // Waits until finished() is true. Returns the error message; empty if there was no error.
  const std::string& wait() const;

 private:
  friend class BlockList;
  // Whether this transfer must wait for `earlier`: they overlap in the file and are not both reads.
  bool must_follow(const FileTransfer& earlier) const;

  std::atomic<bool> finished_ = false;
  // The mutex of the BlockList guards the members below.
  std::span<std::byte> waiting_;  // the rest of `memory`, of blocks that have not started
  int64_t num_in_flight_ = 0;     // number of blocks that have started and are not finished
  int64_t num_blockers_ = 0;      // number of transfers that this transfer must wait for
  std::vector<std::shared_ptr<FileTransfer>> followers_;  // transfers that wait for this transfer
  std::string error_;
};

// A part of a transfer, of at most kTransferBlock bytes.
struct TransferBlock {
  std::shared_ptr<FileTransfer> transfer;
  int64_t offset = 0;  // of the block in the file
  std::span<std::byte> memory;
};

// The unfinished transfers of a queue, whose blocks the queue takes and carries out. Blocks are
// handed out in the order in which their transfers were added. But if two transfers overlap in the
// file and are not both reads, the later one starts when the earlier one is finished. Thread-safe.
class BlockList {
 public:
  // Adds a transfer. transfer: not null, of at least one byte.
  void add(std::shared_ptr<FileTransfer> transfer);
  // Returns the next block; nullopt if no block can start now.
  std::optional<TransferBlock> take();
  // Waits for the next block and returns it. Returns nullopt if close() was called and all
  // transfers are finished.
  std::optional<TransferBlock> wait_and_take();
  // Call when a block has been carried out. error: empty if it succeeded. The first error becomes
  // the transfer's error; the transfer's remaining blocks are then not handed out.
  void finish(const TransferBlock& block, const std::string& error);
  // Announces that no more transfers will be added.
  void close();
  bool closed() const;

 private:
  // take(), with mutex_ held.
  std::optional<TransferBlock> take_locked();
  // Marks the transfer as finished and lets its followers start.
  void finish_transfer(const std::shared_ptr<FileTransfer>& transfer);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::vector<std::shared_ptr<FileTransfer>> unfinished_;  // in the order of add()
  std::deque<std::shared_ptr<FileTransfer>> ready_;        // transfers with blocks that can start
};

class TransferQueue {
 public:
  virtual ~TransferQueue() = default;  // waits for all added transfers
  // Starts a transfer and returns at once. transfer: not null, of at least one byte. Thread-safe.
  virtual void add(std::shared_ptr<FileTransfer> transfer) = 0;
};

// Makes a queue over io_uring. `file` must outlive the queue. Throws IoError with the reason if the
// kernel refuses io_uring.
std::unique_ptr<TransferQueue> make_uring_queue(File& file);
// Makes a queue over threads. `file` must outlive the queue.
std::unique_ptr<TransferQueue> make_thread_queue(File& file);

}  // namespace colossal::io
