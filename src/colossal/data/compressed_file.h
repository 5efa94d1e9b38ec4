// Reads a gzip or zstd file of a corpus sequentially, decompressing it. Used by text_pieces.h.
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

// A file opened for reading. A file may consist of several compressed streams, one after the other;
// their contents are concatenated, as gunzip and zstd do. Not thread-safe.
class CompressedFile {
 public:
  // Opens the file. compression: gzip or zstd. Throws IoError if the file cannot be opened, or if
  // its size differs from file.size because it has changed.
  CompressedFile(const SourceFile& file, Compression compression);
  ~CompressedFile();
  CompressedFile(CompressedFile&&) noexcept;

  // Writes the next decompressed bytes to `out` and returns their number, which is less than
  // out.size() only at the end of the content. Throws IoError, which names the file, if the file is
  // not in the format `compression`, is damaged or is truncated.
  size_t read(std::span<char> out);

  // Returns the number of compressed bytes read from the file so far.
  int64_t bytes_read() const { return position_; }

 private:
  void refill();  // reads the next compressed bytes into buffer_

  io::File file_;
  int64_t size_;          // of the file, in bytes
  int64_t position_ = 0;  // in the file, of the next byte to read
  std::vector<std::byte> buffer_;
  std::span<const std::byte> input_;  // the part of buffer_ not yet decompressed
  std::unique_ptr<Decompressor> decompressor_;
};

}  // namespace colossal::data
