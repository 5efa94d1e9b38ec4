// A scratch file as the lowest memory tier: asynchronous direct I/O (bypassing the page cache) on
// whole regions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "colossal/io/file.h"

namespace colossal::io {

// Offsets, sizes and addresses must be multiples of kSwapBlock.
inline constexpr int64_t kSwapBlock = 4096;
// A written region may be read back in parts that begin and end at multiples of kSwapPiece from the
// offset of the write.
inline constexpr int64_t kSwapPiece = int64_t{1} << 20;

class FileTransfer;
class TransferQueue;

// automatic: io_uring, or threads if the kernel refuses io_uring. threads: for tests of that
// fallback.
enum class SwapMethod { automatic, threads };

// The file has no name, so nothing is left behind however the process ends. Thread-safe. Transfers
// that overlap run in the order of the calls; all others run concurrently. XXH3 checksums of all
// written data are kept in memory (under 100 bytes per piece of kSwapPiece) and compared on read: a
// torn or damaged file causes an error, never wrong data.
class SwapFile {
 public:
  // Reserves `bytes` (if the file system supports it), so that a full disk is an error here. Throws
  // IoError naming the directory, and the required and free bytes.
  SwapFile(const std::filesystem::path& directory, int64_t bytes,
           SwapMethod method = SwapMethod::automatic);
  ~SwapFile();  // waits for transfers in progress

  // A copyable handle. A default-constructed handle, or one for 0 bytes, is done.
  class Transfer {
   public:
    Transfer() = default;

   private:
    friend class SwapFile;
    struct State;
    explicit Transfer(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  // Starts a write. The memory, preferably a TransferMemory, must stay valid and unchanged until
  // wait(). Returns after computing the checksums (about 8 GB/s), while the transfer runs.
  Transfer write(int64_t offset, std::span<const std::byte> from);
  // Starts a read of the data written last. Throws InternalError unless the range consists of whole
  // pieces of earlier writes.
  Transfer read(int64_t offset, std::span<std::byte> into);

  // Waits for the transfer; its memory may be used only after that. Every call throws IoError, with
  // the system's reason, if the transfer failed, or if the data read differs from the data written.
  void wait(const Transfer& transfer);
  bool done(const Transfer& transfer) const;  // if true, wait() does not block

  int64_t bytes() const { return bytes_; }
  // Describes the method in use, for logs: "io_uring, direct", "threads, buffered", ...; and why
  // io_uring was refused, if it was.
  const std::string& method() const { return method_; }
  int descriptor() const { return file_.descriptor(); }  // for tests that damage the file

 private:
  struct Piece {
    int64_t bytes;
    uint64_t checksum;
  };
  using Pieces = std::map<int64_t, Piece>;  // by offset, disjoint

  void check_region(int64_t offset, std::span<const std::byte> memory) const;
  void remember(Pieces pieces, int64_t begin, int64_t end);
  Pieces checkpoint_shards(int64_t begin, int64_t end) const;
  std::string damage(const Pieces& expected, const FileTransfer& transfer) const;

  File file_;
  int64_t bytes_;
  std::string method_;
  mutable std::mutex mutex_;
  Pieces pieces_;
  // Declared last so that it finishes before the file is closed.
  std::unique_ptr<TransferQueue> queue_;
};

}  // namespace colossal::io
