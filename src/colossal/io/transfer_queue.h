// Transfers between memory and a file, many at once and without the caller waiting: the queues
// under SwapFile. One asks the kernel through io_uring; the other, for kernels and containers that
// refuse it, has threads that call pread and pwrite.
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

// A transfer is cut into blocks of kTransferBlock bytes; kTransferDepth of them are under way at a
// time. Their product decides the bandwidth, which was measured to grow no more from 16 MiB on.
// Larger blocks cost less CPU time.
inline constexpr int64_t kTransferBlock = int64_t{1} << 20;
inline constexpr int kTransferDepth = 32;
// Where threads wait for a block each. They sleep in the kernel, so cores do not matter.
inline constexpr int kTransferThreads = 16;

enum class Direction { read, write };

// Bytes of a file from `offset`, and the memory that they go to or come from.
class FileTransfer {
 public:
  FileTransfer(Direction direction, int64_t offset, std::span<std::byte> memory)
      : direction(direction), offset(offset), memory(memory), waiting_(memory) {}

  const Direction direction;
  const int64_t offset;
  const std::span<std::byte> memory;  // of a write: never changed

  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // Waits, then says why it failed: empty when it did not.
  const std::string& wait() const;

 private:
  friend class BlockList;
  bool must_follow(const FileTransfer& earlier) const;

  std::atomic<bool> finished_ = false;
  // The list's, under its lock:
  std::span<std::byte> waiting_;  // not yet handed out, the end of `memory`
  int64_t num_under_way_ = 0;     // blocks
  int64_t num_blockers_ = 0;      // transfers that must finish first
  std::vector<std::shared_ptr<FileTransfer>> followers_;
  std::string error_;
};

struct TransferBlock {
  std::shared_ptr<FileTransfer> transfer;
  int64_t offset = 0;
  std::span<std::byte> memory;
};

// The transfers of a queue that are not finished, handed out block by block. The first added goes
// first, but never before an earlier one that touches the same bytes is finished, unless both read.
class BlockList {
 public:
  void add(std::shared_ptr<FileTransfer> transfer);  // not empty, neither it nor its memory
  std::optional<TransferBlock> take();               // none: nothing can start now
  // Waits for one. None: closed, and all is handed out.
  std::optional<TransferBlock> wait_and_take();
  // A block taken is done. The first error fails its transfer, of which no more is handed out.
  void finish(const TransferBlock& block, const std::string& error);
  void close();
  bool closed() const;

 private:
  std::optional<TransferBlock> take_locked();
  void finish_transfer(const std::shared_ptr<FileTransfer>& transfer);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::vector<std::shared_ptr<FileTransfer>> unfinished_;
  std::deque<std::shared_ptr<FileTransfer>> ready_;
};

class TransferQueue {
 public:
  virtual ~TransferQueue() = default;  // finishes what was added
  virtual void add(std::shared_ptr<FileTransfer> transfer) = 0;
};

// Over `file`, which must outlive the queue. Throws IoError saying why the kernel refuses.
std::unique_ptr<TransferQueue> make_uring_queue(File& file);
std::unique_ptr<TransferQueue> make_thread_queue(File& file);

}  // namespace colossal::io
