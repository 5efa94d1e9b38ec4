#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/file_descriptor.h"
#include "colossal/io/swap_file.h"
#include "colossal/io/transfer_queue.h"

namespace colossal::io {
namespace {

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

[[noreturn]] void refuse(std::string_view what, int error) {
  throw IoError(fmt::format("{}: {}", what, reason_of(error)));
}

// The kernel's rings. The destructor closes them.
class Uring {
 public:
  explicit Uring(unsigned entries) {
    const int error = -::io_uring_queue_init(entries, &ring_, 0);
    if (error != 0) refuse("io_uring_setup", error);
    if (!reads_and_writes()) {  // Linux before 5.6
      ::io_uring_queue_exit(&ring_);
      refuse("io_uring without IORING_OP_READ", EOPNOTSUPP);
    }
  }
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;
  ~Uring() { ::io_uring_queue_exit(&ring_); }
  io_uring* get() { return &ring_; }

 private:
  bool reads_and_writes() {
    io_uring_probe* probe = ::io_uring_get_probe_ring(&ring_);
    const bool supported = probe && ::io_uring_opcode_supported(probe, IORING_OP_READ) &&
                           ::io_uring_opcode_supported(probe, IORING_OP_WRITE);
    ::io_uring_free_probe(probe);
    return supported;
  }

  io_uring ring_;
};

// Wakes the thread of the ring, which reads this counter (an eventfd) through the ring.
class Bell {
 public:
  Bell() : descriptor_(::eventfd(0, EFD_CLOEXEC)) {
    if (!descriptor_) refuse("eventfd", errno);
  }

  void ring() const { ::eventfd_write(descriptor_.get(), 1); }
  void prepare_read(io_uring_sqe* entry) {
    ::io_uring_prep_read(entry, descriptor_.get(), &count_, sizeof count_, 0);
  }

 private:
  FileDescriptor descriptor_;
  eventfd_t count_ = 0;
};

// One thread submits blocks to the kernel, sleeps until some are done, and submits the next.
class UringQueue final : public TransferQueue {
 public:
  explicit UringQueue(File& file) : file_(file), ring_(kTransferDepth + 1) {
    for (size_t slot = 0; slot < slots_.size(); ++slot) free_slots_.push_back(slot);
    thread_ = std::jthread([this] { move_blocks(); });
  }
  ~UringQueue() override {
    list_.close();
    bell_.ring();
  }

  void add(std::shared_ptr<FileTransfer> transfer) override {
    list_.add(std::move(transfer));
    bell_.ring();
  }

 private:
  static constexpr uint64_t kBellSlot = kTransferDepth;  // after the slots of blocks

  // An exception here would end the process; only a broken invariant throws one.
  void move_blocks() {
    listen();
    for (;;) {
      const bool last =
          list_.closed();  // read first, so that blocks which were added before close() are seen
      start_blocks();
      if (last && free_slots_.size() == slots_.size()) return;
      wait_for_some();
    }
  }

  void start_blocks() {
    while (!free_slots_.empty()) {
      auto block = list_.take();
      if (!block) return;
      const size_t slot = free_slots_.back();
      free_slots_.pop_back();
      slots_[slot] = std::move(*block);
      submit(slot);
    }
  }

  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    COLOSSAL_CHECK(entry, "the submission ring of {} entries is full", kTransferDepth + 1);
    return entry;
  }

  void listen() {
    io_uring_sqe* entry = next_entry();
    bell_.prepare_read(entry);
    ::io_uring_sqe_set_data64(entry, kBellSlot);
  }

  void submit(size_t slot) {
    const TransferBlock& block = slots_[slot];
    const auto bytes = static_cast<unsigned>(block.memory.size());
    io_uring_sqe* entry = next_entry();
    if (block.transfer->direction == Direction::read) {
      ::io_uring_prep_read(entry, file_.descriptor(), block.memory.data(), bytes, block.offset);
    } else {
      ::io_uring_prep_write(entry, file_.descriptor(), block.memory.data(), bytes, block.offset);
    }
    ::io_uring_sqe_set_data64(entry, slot);
  }

  void wait_for_some() {
    const int error = -::io_uring_submit_and_wait(ring_.get(), 1);
    COLOSSAL_CHECK(error <= 0 || error == EINTR || error == EAGAIN || error == EBUSY,
                   "io_uring_enter: {}", reason_of(error));
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(ring_.get(), &completion) == 0) {
      const uint64_t slot = ::io_uring_cqe_get_data64(completion);
      const int result = completion->res;
      ::io_uring_cqe_seen(ring_.get(), completion);
      if (slot != kBellSlot) {
        complete(slot, result);
      } else if (!list_.closed()) {
        listen();
      }
    }
  }

  // result: bytes that were transferred, or a negative errno.
  void complete(size_t slot, int result) {
    TransferBlock& block = slots_[slot];
    if (result == -EINTR || result == -EAGAIN) return submit(slot);
    // A direct transfer must continue at a multiple of the block size.
    const int64_t moved = result < 0 ? 0 : result / kSwapBlock * kSwapBlock;
    if (moved > 0 && moved < std::ssize(block.memory)) {
      block.memory = block.memory.subspan(static_cast<size_t>(moved));
      block.offset += moved;
      return submit(slot);
    }
    list_.finish(block, moved > 0 ? "" : failure(block, -result));
    block = {};
    free_slots_.push_back(slot);
  }

  // Words a failure as File does.
  std::string failure(const TransferBlock& block, int error) const {
    const bool read = block.transfer->direction == Direction::read;
    if (read && error <= 0) {
      return fmt::format(
          "{}: ends at offset {}, {} bytes before the end of what was to be read: the file was "
          "cut short",
          file_.path().string(), block.offset, block.memory.size());
    }
    return fmt::format("{}: cannot {} {} bytes at offset {}: {}", file_.path().string(),
                       read ? "read" : "write", block.memory.size(), block.offset,
                       reason_of(error > 0 ? error : ENOSPC));
  }

  File& file_;
  BlockList list_;
  Bell bell_;
  Uring ring_;  // after the bell, because it writes the bell's counter
  std::array<TransferBlock, kTransferDepth> slots_;
  std::vector<size_t> free_slots_;
  std::jthread thread_;  // last, so that it is joined first
};

}  // namespace

std::unique_ptr<TransferQueue> make_uring_queue(File& file) {
  return std::make_unique<UringQueue>(file);
}

}  // namespace colossal::io
