// A scratch file as memory's last tier: whole regions of it are written and read around the page
// cache while the caller goes on.
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

// Offsets, sizes and addresses are multiples of it.
inline constexpr int64_t kSwapBlock = 4096;
// A write may be read back in parts that begin and end at multiples of it from the write's offset.
inline constexpr int64_t kSwapPiece = int64_t{1} << 20;

class FileTransfer;
class TransferQueue;

// Tests take the queue that stands in where the kernel refuses io_uring.
enum class SwapMethod { automatic, threads };

// The file has no name, so nothing stays behind however the process ends. Any thread may call;
// transfers that touch the same bytes take place in the order of the calls, all others at once.
// XXH3 checksums of all that was written are kept in memory (under 100 bytes a piece), and what is
// read is compared with them: a torn or damaged file is an error, never wrong data.
class SwapFile {
 public:
  // Reserves `bytes`, so that a full disk shows here (if the file system can reserve). Throws
  // IoError naming the directory, the bytes asked for and those free.
  SwapFile(const std::filesystem::path& directory, int64_t bytes,
           SwapMethod method = SwapMethod::automatic);
  ~SwapFile();  // waits for what is under way

  // A handle that may be copied. Made without a file, or of no bytes: done.
  class Transfer {
   public:
    Transfer() = default;

   private:
    friend class SwapFile;
    struct State;
    explicit Transfer(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  // The memory, best a TransferMemory, must stay where and as it is until wait(). `write` returns
  // when it has the checksums, at about 8 GB/s, while the transfer is under way.
  Transfer write(int64_t offset, std::span<const std::byte> from);
  // Reads what was written last. Throws InternalError unless the range is made of whole pieces of
  // earlier writes.
  Transfer read(int64_t offset, std::span<std::byte> into);

  // Waits for the transfer; only then may its memory be used. Throws IoError, at each call, if
  // bytes could not be moved, with the system's reason, or if the bytes read are not those that
  // were written.
  void wait(const Transfer& transfer);
  bool done(const Transfer& transfer) const;  // wait() will not wait

  int64_t bytes() const { return bytes_; }
  // How bytes are moved, for people: "io_uring, direct", "threads, buffered" ..., and what was
  // refused where it is not the first.
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
  std::unique_ptr<TransferQueue> queue_;  // last: it finishes before the file is closed
};

}  // namespace colossal::io
