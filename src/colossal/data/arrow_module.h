// The interface of the module libcolossal_arrow.so, which reads tables by the library Apache Arrow.
//
// It is a module, loaded by dlopen() when the first such file is read, for two reasons: Arrow's
// libraries take 60 MB, which most runs do not need; and the libraries from PyPI contain libraries
// of their own (OpenSSL among them), whose functions must not take the place of ours.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::data {

// Not thread-safe. Errors are std::runtime_error, whose messages do not name the file.
class TableReader {
 public:
  virtual ~TableReader() = default;
  // Appends some rows to `lines` as JSON lines. Returns false if there are no more.
  virtual bool read(std::string& lines) = 0;
  // Returns about how many bytes of the file have been read.
  virtual int64_t bytes_read() const = 0;
};

// Opens a table. is_parquet: Parquet; otherwise an Arrow IPC file or stream. column: the only
// column to read, if the table has it; empty: all.
using OpenTable = TableReader*(const char* path, bool is_parquet, const char* column);
inline constexpr const char* kOpenTable = "colossal_open_table";  // name of this function

}  // namespace colossal::data
