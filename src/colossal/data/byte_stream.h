// ByteStream: the content of a file of a corpus, read from its beginning to its end: as it is on
// disk, decompressed (compressed_file.h), or with its rows as JSON lines (row_stream.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "colossal/data/source_files.h"

namespace colossal::data {

// Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Writes the next bytes to `out` and returns their number, which is less than out.size() only at
  // the end of the content. Throws IoError, which names the file, if the file is damaged.
  virtual size_t read(std::span<char> out) = 0;

  // Returns about how many bytes of the file on disk have been read so far.
  virtual int64_t bytes_read() const = 0;
};

// Opens a file, and decompresses it as file.compression says. Throws IoError if the file cannot be
// opened, or if its size differs from file.size because it has changed.
std::unique_ptr<ByteStream> open_bytes(const SourceFile& file);

}  // namespace colossal::data
