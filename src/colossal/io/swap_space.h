// Allocates regions in scratch files, and adds files as needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "colossal/io/swap_file.h"

namespace colossal::io {

// Rounds `bytes` up to a multiple of kSwapBlock.
constexpr int64_t whole_swap_blocks(int64_t bytes) {
  return (bytes + kSwapBlock - 1) / kSwapBlock * kSwapBlock;
}

// take() and give() are not thread-safe; transfers in the files are.
class SwapSpace {
 public:
  explicit SwapSpace(std::filesystem::path directory) : directory_(std::move(directory)) {}

  struct Region {
    SwapFile* file = nullptr;  // owned by the SwapSpace
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  // Returns a free region of at least `bytes` bytes, at a multiple of kSwapPiece. Throws IoError if
  // a new file is needed and the disk is full.
  Region take(int64_t bytes);
  // Frees a region that take() returned. No transfer may use it any more.
  void give(const Region& region);

  int64_t file_bytes() const { return file_bytes_; }  // total size of all files

 private:
  std::filesystem::path directory_;
  std::vector<std::unique_ptr<SwapFile>> files_;
  std::vector<Region> free_;  // sorted by file, then offset; adjacent regions are merged
  int64_t file_bytes_ = 0;
};

}  // namespace colossal::io
