// Allocates regions for offloaded tensors in scratch files (swap_file.h), and adds files of 256 MiB
// or more as needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "colossal/io/swap_file.h"

namespace colossal::io {

// Rounds the bytes of a transfer up to whole blocks (kSwapBlock), as SwapFile requires. Regions are
// rounded further, to whole pieces (kSwapPiece), which are multiples of blocks.
constexpr int64_t whole_swap_blocks(int64_t bytes) {
  return (bytes + kSwapBlock - 1) / kSwapBlock * kSwapBlock;
}

// Only one thread at a time may call take() and give(). Transfers in the files are thread-safe.
class SwapSpace {
 public:
  // directory: an existing folder, in whose file system the files are created.
  explicit SwapSpace(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // A range of a file.
  struct Region {
    SwapFile* file = nullptr;  // owned by the SwapSpace
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  // Allocates a region of at least `bytes` bytes. Its offset and size are multiples of kSwapPiece.
  // Throws IoError if a new file is needed and cannot be created, for example on a full disk.
  Region take(int64_t bytes);
  // Frees a region that take() returned. All transfers in the region must be done. Files keep their
  // size.
  void give(const Region& region);

  int64_t file_bytes() const { return file_bytes_; }  // total size of all files

 private:
  std::filesystem::path directory_;
  std::vector<std::unique_ptr<SwapFile>> files_;
  std::vector<Region> free_;  // free regions, by file and offset; adjacent ones are merged
  int64_t file_bytes_ = 0;
};

}  // namespace colossal::io
