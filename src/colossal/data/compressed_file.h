// The content of a compressed file, from its beginning to its end.
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

// Several compressed streams one after the other are one content, as for gunzip and zstd.
class CompressedFile {
 public:
  // compression: gzip or zstd. Throws IoError where the file cannot be opened or has another size
  // than `file` says.
  CompressedFile(const SourceFile& file, Compression compression);
  ~CompressedFile();
  CompressedFile(CompressedFile&&) noexcept;

  // Fills `out` and returns its size, or less at the end of the content. Throws IoError naming the
  // file where it is no such file, damaged or cut short.
  size_t read(std::span<char> out);

  int64_t bytes_read() const { return position_; }  // of the file as it lies on disk

 private:
  void refill();

  io::File file_;
  int64_t size_;
  int64_t position_ = 0;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> input_;  // of the buffer, not decompressed yet
  std::unique_ptr<Decompressor> decompressor_;
};

}  // namespace colossal::data
