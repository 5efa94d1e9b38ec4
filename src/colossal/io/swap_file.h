// A scratch file for offloaded tensors: the NVMe tier. Reads and writes are asynchronous and bypass
// the page cache (direct I/O) if the file system can.
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

// Offsets in the file, sizes, and memory addresses must be multiples of this number of bytes.
// Otherwise SwapFile::write() and read() throw InternalError.
inline constexpr int64_t kSwapBlock = 4096;
// A write consists of pieces of this number of bytes, counted from the write's offset; its last
// piece may be shorter. A read may cover a part of what was written, but only whole pieces.
inline constexpr int64_t kSwapPiece = int64_t{1} << 20;

class FileTransfer;
class TransferQueue;

enum class SwapMethod {
  automatic,  // io_uring, or threads if the kernel refuses io_uring
  threads     // threads, for tests
};

// A file of a fixed size without a name, which the kernel deletes even if the process is killed.
// Thread-safe. If two transfers overlap and at least one is a write, the later one runs after the
// earlier one. All other transfers run concurrently. SwapFile keeps an XXH3 checksum of each
// written piece in memory (less than 100 bytes per piece). It compares checksums when it reads, so
// that a damaged file causes an error instead of wrong data.
class SwapFile {
 public:
  // Creates a file of `bytes` bytes, a multiple of kSwapBlock, in `directory` and reserves its
  // space if the file system can. Throws IoError, for example if less than `bytes` bytes are free.
  SwapFile(const std::filesystem::path& directory, int64_t bytes,
           SwapMethod method = SwapMethod::automatic);
  ~SwapFile();  // waits for all transfers

  // Handle of one transfer. Copies refer to the same transfer. A default-constructed handle is of a
  // transfer that is done, and so is the handle of a transfer of 0 bytes.
  class Transfer {
   public:
    Transfer() = default;

   private:
    friend class SwapFile;
    struct State;
    explicit Transfer(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  // Starts writing `from` at byte `offset` of the file. `from` must stay valid and unchanged until
  // wait(); memory of a TransferMemory (transfer_memory.h) is the fastest. The transfer already
  // runs while this function computes the checksums (about 8 GB/s).
  Transfer write(int64_t offset, std::span<const std::byte> from);
  // Starts reading into `into`, from byte `offset` of the file. `into` must stay valid, and the
  // caller must not use it, until wait(). Throws InternalError unless the range consists of whole
  // pieces of earlier writes; a piece that a later write has overlapped does not count.
  Transfer read(int64_t offset, std::span<std::byte> into);

  // Waits until the transfer is done; the caller may use its memory afterwards. Throws IoError if
  // the transfer failed, or if the data read differs from the data written. A repeated call for the
  // same transfer throws again.
  void wait(const Transfer& transfer);
  // Whether the transfer is done, so that wait() would not block.
  bool done(const Transfer& transfer) const;

  int64_t bytes() const { return bytes_; }  // size of the file
  // Returns the method in use, for logs: "io_uring, direct", "threads, buffered", ... If the kernel
  // refused io_uring, the text also gives the reason.
  const std::string& method() const { return method_; }
  int descriptor() const { return file_.descriptor(); }  // for tests that damage the file

 private:
  // What was last written to a range of the file.
  struct Piece {
    int64_t bytes;
    uint64_t checksum;
  };
  using Pieces = std::map<int64_t, Piece>;  // by offset in the file; pieces do not overlap

  // Throws InternalError unless `offset`, the size and the address of `memory` are multiples of
  // kSwapBlock and the range is within the file.
  void check_region(int64_t offset, std::span<const std::byte> memory) const;
  // Replaces the pieces that overlap [begin, end) with `pieces`.
  void remember(Pieces pieces, int64_t begin, int64_t end);
  // Returns the pieces that make up [begin, end). Throws InternalError if pieces do not fill it.
  Pieces expected_pieces(int64_t begin, int64_t end) const;
  // Returns an error message if the data that `transfer` has read does not have the checksums of
  // `expected`; empty if it has.
  std::string damage(const Pieces& expected, const FileTransfer& transfer) const;

  File file_;
  int64_t bytes_;
  std::string method_;
  mutable std::mutex mutex_;
  Pieces pieces_;  // all pieces of the file that can be read; mutex_ guards them
  // Declared last so that it finishes before the file is closed.
  std::unique_ptr<TransferQueue> queue_;
};

}  // namespace colossal::io
