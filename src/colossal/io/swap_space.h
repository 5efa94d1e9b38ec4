// Regions of scratch files, taken and given back, for as much as is needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "colossal/io/swap_file.h"

namespace colossal::io {

// `bytes`, rounded up to what a SwapFile moves.
constexpr int64_t whole_swap_blocks(int64_t bytes) {
  return (bytes + kSwapBlock - 1) / kSwapBlock * kSwapBlock;
}

// Not for several threads at once.
class SwapSpace {
 public:
  explicit SwapSpace(std::filesystem::path directory) : directory_(std::move(directory)) {}

  struct Region {
    SwapFile* file = nullptr;  // lives as long as the space
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  // Returns a region of at least `bytes`. Throws IoError when it needs another file and the disk is
  // full.
  Region take(int64_t bytes);
  void give(const Region& region);

  int64_t file_bytes() const { return file_bytes_; }  // of all files

 private:
  std::filesystem::path directory_;
  std::vector<std::unique_ptr<SwapFile>> files_;
  std::vector<Region> free_;  // ascending by file, then offset; neighbours are one
  int64_t file_bytes_ = 0;
};

}  // namespace colossal::io
