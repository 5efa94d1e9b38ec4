#include <thread>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/io/transfer_queue.h"

namespace colossal::io {
namespace {

class ThreadQueue final : public TransferQueue {
 public:
  explicit ThreadQueue(File& file) : file_(file) {
    try {
      for (int i = 0; i < kTransferThreads; ++i) threads_.emplace_back([this] { move_blocks(); });
    } catch (...) {
      list_.close();  // ends the threads that did start; their destructors wait for that
      throw;
    }
  }
  ~ThreadQueue() override { list_.close(); }

  void add(std::shared_ptr<FileTransfer> transfer) override { list_.add(std::move(transfer)); }

 private:
  void move_blocks() {
    while (const auto block = list_.wait_and_take()) list_.finish(*block, move(*block));
  }

  // Returns why the transfer failed, or "".
  std::string move(const TransferBlock& block) {
    try {
      if (block.transfer->direction == Direction::read) {
        file_.read_at(block.memory, block.offset);
      } else {
        file_.write_at(block.memory, block.offset);
      }
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  }

  File& file_;
  BlockList list_;
  std::vector<std::jthread> threads_;  // last, so that they are joined first
};

}  // namespace

std::unique_ptr<TransferQueue> make_thread_queue(File& file) {
  return std::make_unique<ThreadQueue>(file);
}

}  // namespace colossal::io
