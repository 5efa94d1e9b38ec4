// Texts as the compressed files that a corpus may have.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace colossal::data {

inline std::string gzipped(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

inline std::string zstd_compressed(std::string_view text) {
  std::string compressed(ZSTD_compressBound(text.size()), '\0');
  const size_t length =
      ZSTD_compress(compressed.data(), compressed.size(), text.data(), text.size(), 3);
  EXPECT_FALSE(ZSTD_isError(length));
  compressed.resize(length);
  return compressed;
}

// With the ending that says so: "a.txt", "a.txt.gz", "a.txt.zst".
inline std::string as_stored(std::string_view name, std::string_view text) {
  if (name.ends_with(".gz") || name.ends_with(".GZ")) return gzipped(text);
  const bool is_zstd = name.ends_with(".zst") || name.ends_with(".ZST");
  return is_zstd ? zstd_compressed(text) : std::string(text);
}

}  // namespace colossal::data
