// Reads a compressed file sequentially.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colossal/data/file_format.h"
#include "colossal/data/source_files.h"
#include "colossal/io/file.h"

namespace colossal::data {

class Decompressor;

// A file may have several compressed streams, one after the other; their contents are concatenated,
// as gunzip and zstd do. Not thread-safe.
class CompressedFile {
 public:
  // compression: gzip or zstd. Throws IoError if the file cannot be opened or its size differs from
  // file.size.
  CompressedFile(const SourceFile& file, Compression compression);
  ~CompressedFile();
  CompressedFile(CompressedFile&&) noexcept;

  // Decompresses the next bytes into `out` and returns their number, which is less than out.size()
  // only at the end of the content. Throws IoError naming the file if the file is not in the format
  // `compression`, is damaged or is truncated.
  size_t read(std::span<char> out);

  int64_t bytes_read() const { return position_; }  // from the file: compressed bytes

 private:
  void refill();

  io::File file_;
  int64_t size_;
  int64_t position_ = 0;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> input_;  // the part of buffer_ not yet decompressed
  std::unique_ptr<Decompressor> decompressor_;
};

}  // namespace colossal::data
