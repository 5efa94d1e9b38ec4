// The interface of the module libcolossal_arrow.so, which reads tables by the library Apache Arrow.
//
// It is a module, loaded by dlopen() when the first such file is read, for two reasons: Arrow's
// libraries take 60 MB, which most runs do not need; and the libraries from PyPI contain libraries
// of their own (OpenSSL among them), whose functions must not take the place of ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// The images of a Parquet file, as data sets of the Hugging Face Hub have them: a column of
// structures with the image file in "bytes". Not thread-safe; errors as of TableReader.
class ImageTable {
 public:
  virtual ~ImageTable() = default;
  // As TableReader::read(), without the bytes of images.
  virtual bool read(std::string& lines) = 0;

  // A part of the file, of which only the whole can be read.
  struct RowGroup {
    int64_t rows = 0;
    int64_t image_bytes = 0;  // decompressed
  };
  virtual std::vector<RowGroup> row_groups() const = 0;
  // Returns the image files of a row group, one for each row; empty where there is none.
  virtual std::vector<std::string> read_images(int row_group) = 0;
};

// Opens a Parquet file. Returns nullptr if it has no column of images.
using OpenImageTable = ImageTable*(const char* path);
inline constexpr const char* kOpenImageTable = "colossal_open_image_table";

}  // namespace colossal::data
