#include "colossal/io/swap_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/io/manifest.h"
#include "colossal/io/transfer_queue.h"

namespace colossal::io {
namespace {

File create_reserved(const std::filesystem::path& directory, int64_t bytes) {
  COLOSSAL_CHECK(bytes > 0 && bytes % kSwapBlock == 0,
                 "a swap file of {} bytes, not of a multiple of {}", bytes, kSwapBlock);
  File file = File::create_unnamed(directory);
  // Compares with the free space first: a reservation that fails takes all free space until it
  // fails.
  std::error_code unknown;
  const auto space = std::filesystem::space(directory, unknown);
  const bool limited = !unknown && space.capacity > 0;
  if (limited && space.available < static_cast<uint64_t>(bytes)) {
    throw IoError(
        fmt::format("{}: has {} bytes free, and the swap file needs {}: free some space, or give "
                    "another directory",
                    directory.string(), space.available, bytes));
  }
  file.reserve(bytes);
  return file;
}

bool is_in_memory(const File& file) {
  struct statfs status {};
  return ::fstatfs(file.descriptor(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

// Switches the file to direct I/O if the file system supports it. Writes a block to find out,
// because some file systems accept the flag and then refuse to write. tmpfs accepts it since Linux
// 6.6, but has no disk that it could write to.
bool go_direct(File& file) {
  if (is_in_memory(file)) return false;
  const int flags = ::fcntl(file.descriptor(), F_GETFL);
  if (::fcntl(file.descriptor(), F_SETFL, flags | O_DIRECT) != 0) return false;
  alignas(kSwapBlock) const std::array<std::byte, kSwapBlock> block{};
  if (::pwrite(file.descriptor(), block.data(), block.size(), 0) == kSwapBlock) return true;
  ::fcntl(file.descriptor(), F_SETFL, flags);
  return false;
}

}  // namespace

struct SwapFile::Transfer::State {
  State(Direction direction, int64_t offset, std::span<std::byte> memory, Pieces expected)
      : transfer(direction, offset, memory), expected(std::move(expected)) {}

  FileTransfer transfer;
  const Pieces expected;  // empty for a write
  std::mutex mutex;
  bool verified = false;
  std::string damage;
};

SwapFile::SwapFile(const std::filesystem::path& directory, int64_t bytes, SwapMethod method)
    : file_(create_reserved(directory, bytes)), bytes_(bytes) {
  std::string refused;
  if (method == SwapMethod::automatic) {
    try {
      queue_ = make_uring_queue(file_);
    } catch (const IoError& error) {
      refused = fmt::format(" (refused: {})", error.what());
    }
  }
  const char* queue = queue_ ? "io_uring" : "threads";
  if (!queue_) queue_ = make_thread_queue(file_);
  method_ = fmt::format("{}, {}{}", queue, go_direct(file_) ? "direct" : "buffered", refused);
}

SwapFile::~SwapFile() = default;

void SwapFile::check_region(int64_t offset, std::span<const std::byte> memory) const {
  const auto size = std::ssize(memory);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  COLOSSAL_CHECK(offset % kSwapBlock == 0 && size % kSwapBlock == 0 && address % kSwapBlock == 0,
                 "{} bytes at offset {} and address {:#x}: not all are multiples of {}", size,
                 offset, address, kSwapBlock);
  COLOSSAL_CHECK(0 <= offset && offset <= bytes_ - size,
                 "{} bytes at offset {} of a swap file of {}", size, offset, bytes_);
}

SwapFile::Transfer SwapFile::write(int64_t offset, std::span<const std::byte> from) {
  check_region(offset, from);
  if (from.empty()) return {};
  // The transfer only reads from this memory, as its direction says.
  const std::span memory(const_cast<std::byte*>(from.data()), from.size());
  const auto state = std::make_shared<Transfer::State>(Direction::write, offset, memory, Pieces());
  // The device writes while the checksums are computed.
  queue_->add({state, &state->transfer});
  Pieces pieces;
  for (size_t begin = 0; begin < from.size(); begin += kSwapPiece) {
    const auto piece = from.subspan(begin, std::min<size_t>(kSwapPiece, from.size() - begin));
    pieces[offset + static_cast<int64_t>(begin)] = {std::ssize(piece), checksum(piece)};
  }
  remember(std::move(pieces), offset, offset + std::ssize(from));
  return Transfer(state);
}

void SwapFile::remember(Pieces pieces, int64_t begin, int64_t end) {
  const std::lock_guard lock(mutex_);
  auto first = pieces_.lower_bound(begin);
  if (first != pieces_.begin()) {
    const auto before = std::prev(first);
    if (before->first + before->second.bytes > begin) first = before;
  }
  pieces_.erase(first, pieces_.lower_bound(end));
  pieces_.merge(pieces);
}

SwapFile::Pieces SwapFile::expected_pieces(int64_t begin, int64_t end) const {
  const std::lock_guard lock(mutex_);
  Pieces found;
  int64_t position = begin;
  while (position < end) {
    const auto piece = pieces_.find(position);
    const bool whole = piece != pieces_.end() && piece->second.bytes <= end - position;
    COLOSSAL_CHECK(whole,
                   "reading [{}, {}) of the swap file {}: no whole piece was written at offset {} "
                   "(pieces are of {} bytes from where a write began, the last one shorter)",
                   begin, end, file_.path().string(), position, kSwapPiece);
    found.insert(*piece);
    position += piece->second.bytes;
  }
  return found;
}

SwapFile::Transfer SwapFile::read(int64_t offset, std::span<std::byte> into) {
  check_region(offset, into);
  if (into.empty()) return {};
  const auto state = std::make_shared<Transfer::State>(
      Direction::read, offset, into, expected_pieces(offset, offset + std::ssize(into)));
  queue_->add({state, &state->transfer});
  return Transfer(state);
}

std::string SwapFile::damage(const Pieces& expected, const FileTransfer& transfer) const {
  for (const auto& [offset, piece] : expected) {
    const auto begin = static_cast<size_t>(offset - transfer.offset);
    if (checksum(transfer.memory.subspan(begin, static_cast<size_t>(piece.bytes))) ==
        piece.checksum) {
      continue;
    }
    return fmt::format(
        "{}: the {} bytes read at offset {} are not those that were written there: the disk or "
        "another program changed them",
        file_.path().string(), piece.bytes, offset);
  }
  return "";
}

void SwapFile::wait(const Transfer& transfer) {
  if (!transfer.state_) return;
  Transfer::State& state = *transfer.state_;
  const std::string& failure = state.transfer.wait();
  if (!failure.empty()) throw IoError(failure);
  // Verified once, because the caller may change the memory after the first wait().
  const std::lock_guard lock(state.mutex);
  if (!state.verified) state.damage = damage(state.expected, state.transfer);
  state.verified = true;
  if (!state.damage.empty()) throw IoError(state.damage);
}

bool SwapFile::done(const Transfer& transfer) const {
  return !transfer.state_ || transfer.state_->transfer.finished();
}

}  // namespace colossal::io
