#include "colossal/data/byte_stream.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/data/compressed_file.h"
#include "colossal/io/file.h"

namespace colossal::data {
namespace {

class PlainFile : public ByteStream {
 public:
  explicit PlainFile(const SourceFile& file)
      : file_(io::File::open_for_reading(file.path)), size_(file.size) {
    require_size(file_, file);
  }

  size_t read(std::span<char> out) override {
    const auto count = std::min<int64_t>(std::ssize(out), size_ - position_);
    file_.read_at(std::as_writable_bytes(out.first(static_cast<size_t>(count))), position_);
    position_ += count;
    return static_cast<size_t>(count);
  }
  int64_t bytes_read() const override { return position_; }

 private:
  io::File file_;
  int64_t size_;
  int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const SourceFile& file) {
  if (file.compression == Compression::none) return std::make_unique<PlainFile>(file);
  return std::make_unique<CompressedFile>(file);
}

}  // namespace colossal::data
