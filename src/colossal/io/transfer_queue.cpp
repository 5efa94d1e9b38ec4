#include "colossal/io/transfer_queue.h"

#include <algorithm>
#include <utility>

namespace colossal::io {

const std::string& FileTransfer::wait() const {
  finished_.wait(false, std::memory_order_acquire);
  return error_;
}

bool FileTransfer::must_follow(const FileTransfer& earlier) const {
  if (direction == Direction::read && earlier.direction == Direction::read) return false;
  return offset < earlier.offset + std::ssize(earlier.memory) &&
         earlier.offset < offset + std::ssize(memory);
}

void BlockList::add(std::shared_ptr<FileTransfer> transfer) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& earlier : unfinished_) {
      if (!transfer->must_follow(*earlier)) continue;
      earlier->followers_.push_back(transfer);
      ++transfer->num_blockers_;
    }
    unfinished_.push_back(transfer);
    if (transfer->num_blockers_ == 0) ready_.push_back(std::move(transfer));
  }
  changed_.notify_all();
}

std::optional<TransferBlock> BlockList::take_locked() {
  while (!ready_.empty() && ready_.front()->waiting_.empty()) ready_.pop_front();
  if (ready_.empty()) return std::nullopt;
  FileTransfer& transfer = *ready_.front();
  const auto offset = transfer.offset + std::ssize(transfer.memory) - std::ssize(transfer.waiting_);
  const auto memory = transfer.waiting_.first(
      std::min(transfer.waiting_.size(), static_cast<size_t>(kTransferBlock)));
  transfer.waiting_ = transfer.waiting_.subspan(memory.size());
  ++transfer.num_in_flight_;
  return TransferBlock{ready_.front(), offset, memory};
}

std::optional<TransferBlock> BlockList::take() {
  const std::lock_guard lock(mutex_);
  return take_locked();
}

std::optional<TransferBlock> BlockList::wait_and_take() {
  std::unique_lock lock(mutex_);
  std::optional<TransferBlock> block;
  changed_.wait(lock, [&] {
    block = take_locked();
    return block || (closed_ && unfinished_.empty());
  });
  return block;
}

void BlockList::finish(const TransferBlock& block, const std::string& error) {
  const std::lock_guard lock(mutex_);
  FileTransfer& transfer = *block.transfer;
  --transfer.num_in_flight_;
  if (!error.empty() && transfer.error_.empty()) {
    transfer.error_ = error;
    transfer.waiting_ = {};
  }
  if (transfer.waiting_.empty() && transfer.num_in_flight_ == 0) finish_transfer(block.transfer);
}

void BlockList::finish_transfer(const std::shared_ptr<FileTransfer>& transfer) {
  std::erase(unfinished_, transfer);
  for (auto& follower : transfer->followers_) {
    if (--follower->num_blockers_ == 0) ready_.push_back(std::move(follower));
  }
  transfer->followers_.clear();
  transfer->finished_.store(true, std::memory_order_release);
  transfer->finished_.notify_all();
  changed_.notify_all();
}

void BlockList::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

bool BlockList::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace colossal::io
