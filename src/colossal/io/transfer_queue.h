// Asynchronous transfers between memory and a file, for SwapFile. There are two queues: one uses
// io_uring; the other, for kernels and containers that refuse io_uring, uses threads that call
// pread and pwrite.
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

// Transfers are split into blocks of kTransferBlock bytes. At most kTransferDepth blocks are in
// flight in the io_uring queue. The bandwidth depends on the product of the two constants, and in
// measurements stopped growing at 16 MiB in flight. Larger blocks cost less CPU time.
inline constexpr int64_t kTransferBlock = int64_t{1} << 20;
inline constexpr int kTransferDepth = 32;
// Number of threads of the thread queue, each with one block in flight. They sleep in the kernel,
// so the number of cores does not matter.
inline constexpr int kTransferThreads = 16;

enum class Direction { read, write };

// A transfer between `memory` and the file's bytes from `offset` on. read: into memory; write: into
// the file. The memory must stay valid until finished() is true.
class FileTransfer {
 public:
  FileTransfer(Direction direction, int64_t offset, std::span<std::byte> memory)
      : direction(direction), offset(offset), memory(memory), waiting_(memory) {}

  const Direction direction;
  const int64_t offset;
  const std::span<std::byte> memory;  // not modified by a write

  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // Waits until finished() is true. Returns the error message; "" on success.
  const std::string& wait() const;

 private:
  friend class BlockList;
  bool must_follow(const FileTransfer& earlier) const;

  std::atomic<bool> finished_ = false;
  // The BlockList guards these with its mutex.
  std::span<std::byte> waiting_;  // the rest of `memory`: blocks that have not started
  int64_t num_in_flight_ = 0;     // blocks in flight
  int64_t num_blockers_ = 0;      // earlier overlapping transfers that are not finished
  std::vector<std::shared_ptr<FileTransfer>> followers_;  // that wait until this one is finished
  std::string error_;
};

// A part of a transfer, of at most kTransferBlock bytes.
struct TransferBlock {
  std::shared_ptr<FileTransfer> transfer;
  int64_t offset = 0;
  std::span<std::byte> memory;
};

// The unfinished transfers of a queue, handed out block by block, first in, first out. A transfer
// that overlaps an earlier one waits until the earlier one is finished, unless both are reads.
// Thread-safe.
class BlockList {
 public:
  void add(std::shared_ptr<FileTransfer> transfer);  // transfer: not null, with at least one byte
  std::optional<TransferBlock> take();               // nullopt: no block can start now
  // Waits for a block that can start. nullopt: close() was called and all transfers are finished.
  std::optional<TransferBlock> wait_and_take();
  // Call when a block is done. error: "" on success. The first error becomes the transfer's error;
  // the transfer's remaining blocks are not handed out.
  void finish(const TransferBlock& block, const std::string& error);
  void close();  // announces that no more transfers will be added
  bool closed() const;

 private:
  std::optional<TransferBlock> take_locked();
  void finish_transfer(const std::shared_ptr<FileTransfer>& transfer);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::vector<std::shared_ptr<FileTransfer>> unfinished_;
  std::deque<std::shared_ptr<FileTransfer>> ready_;  // those that wait for no other
};

class TransferQueue {
 public:
  virtual ~TransferQueue() = default;                            // waits for all added transfers
  virtual void add(std::shared_ptr<FileTransfer> transfer) = 0;  // starts it; thread-safe
};

// file: must outlive the queue. make_uring_queue() throws IoError with the reason if the kernel
// refuses io_uring.
std::unique_ptr<TransferQueue> make_uring_queue(File& file);
std::unique_ptr<TransferQueue> make_thread_queue(File& file);

}  // namespace colossal::io
