// A scratch file as the lowest memory tier. Reads and writes are asynchronous and, where the file
// system supports it, bypass the page cache (direct I/O).
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
// A write is divided into pieces of this size from its offset on; the last piece may be shorter.
// The data may be read back in parts that consist of whole pieces.
inline constexpr int64_t kSwapPiece = int64_t{1} << 20;

class FileTransfer;
class TransferQueue;

// automatic: io_uring, or threads if the kernel refuses io_uring. threads: for tests of that
// fallback.
enum class SwapMethod { automatic, threads };

// The file has no name, so nothing is left behind however the process ends. Thread-safe. A transfer
// that overlaps an earlier one runs after it, unless both are reads; all others run concurrently.
// An XXH3 checksum of each written piece is kept in memory (under 100 bytes per piece) and compared
// when the piece is read, so that a damaged file causes an error instead of wrong data.
class SwapFile {
 public:
  // Creates a file of `bytes` bytes in `directory` and reserves its space (if the file system
  // supports it), so that a full disk is an error here. Throws IoError naming the directory, and
  // the required and free bytes.
  SwapFile(const std::filesystem::path& directory, int64_t bytes,
           SwapMethod method = SwapMethod::automatic);
  ~SwapFile();  // waits for transfers in progress

  // A copyable handle of one transfer. The transfer of a default-constructed handle, or of 0 bytes,
  // is done.
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
  // wait(). Returns when the checksums are computed (about 8 GB/s); meanwhile the transfer runs.
  Transfer write(int64_t offset, std::span<const std::byte> from);
  // Starts a read of the data that was last written there. The memory must stay valid and unused
  // until wait(). Throws InternalError unless the range consists of whole pieces of earlier writes
  // that no later write has overlapped in part.
  Transfer read(int64_t offset, std::span<std::byte> into);

  // Waits until the transfer is done; the caller may use the memory only after that. Throws IoError
  // if the transfer failed (with the system's reason), or if the data read differs from the data
  // written; a repeated call throws again.
  void wait(const Transfer& transfer);
  bool done(const Transfer& transfer) const;  // if true, wait() does not block

  int64_t bytes() const { return bytes_; }
  // Returns the method in use, for logs: "io_uring, direct", "threads, buffered", ...; and if
  // io_uring was refused, why.
  const std::string& method() const { return method_; }
  int descriptor() const { return file_.descriptor(); }  // for tests that damage the file

 private:
  struct Piece {
    int64_t bytes;
    uint64_t checksum;
  };
  using Pieces = std::map<int64_t, Piece>;  // by offset; pieces do not overlap

  // Throws InternalError unless offset, size and address are multiples of kSwapBlock in the file.
  void check_region(int64_t offset, std::span<const std::byte> memory) const;
  // Replaces the pieces that overlap [begin, end) with `pieces`.
  void remember(Pieces pieces, int64_t begin, int64_t end);
  // Returns the pieces that make up [begin, end). Throws InternalError if pieces do not fill it.
  Pieces expected_pieces(int64_t begin, int64_t end) const;
  // Returns "" if the data read has the expected checksums, otherwise an error message.
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
