// Reads a gzip or zstd file of a corpus sequentially, decompressing it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colossal/data/byte_stream.h"
#include "colossal/data/source_files.h"
#include "colossal/io/file.h"

namespace colossal::data {

class Decompressor;

// A file opened for reading. A file may consist of several compressed streams, one after the other;
// their contents are concatenated, as gunzip and zstd do. Zero bytes after a stream, with which
// tapes and block devices fill their last block, are ignored.
class CompressedFile : public ByteStream {
 public:
  // Opens the file. file.compression: gzip or zstd. Throws IoError if the file cannot be opened, or
  // if its size differs from file.size because it has changed.
  explicit CompressedFile(const SourceFile& file);
  ~CompressedFile() override;

  // read() throws IoError if the file is not in the format file.compression, is damaged or is
  // truncated.
  size_t read(std::span<char> out) override;
  int64_t bytes_read() const override { return position_; }

 private:
  void refill();      // reads the next compressed bytes into buffer_
  bool skip_zeros();  // between streams; returns whether the file ends there

  io::File file_;
  int64_t size_;          // of the file, in bytes
  int64_t position_ = 0;  // in the file, of the next byte to read
  std::vector<std::byte> buffer_;
  std::span<const std::byte> input_;  // the part of buffer_ not yet decompressed
  std::unique_ptr<Decompressor> decompressor_;
};

// Throws IoError if the opened file does not have file.size bytes.
void require_size(const io::File& opened, const SourceFile& file);

}  // namespace colossal::data
