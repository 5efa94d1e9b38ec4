#include "colossal/data/compressed_file.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal::data {
namespace {

constexpr int64_t kInputBytes = int64_t{256} << 10;

}  // namespace

// Decompresses a stream. step() removes the bytes that it reads or writes from the front of `input`
// and `out`.
class Decompressor {
 public:
  virtual ~Decompressor() = default;
  // Throws std::runtime_error with a description of what is wrong with the input.
  virtual void step(std::span<const std::byte>& input, std::span<char>& out) = 0;
  bool at_end_of_stream() const { return at_end_; }

 protected:
  bool at_end_ = false;  // at the end of a stream; another one may follow
};

namespace {

class GzipDecompressor : public Decompressor {
 public:
  GzipDecompressor() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }
  GzipDecompressor(const GzipDecompressor&) = delete;
  GzipDecompressor& operator=(const GzipDecompressor&) = delete;

  void step(std::span<const std::byte>& input, std::span<char>& out) override {
    if (at_end_) inflateReset(&stream_);
    const auto most = [](size_t size) {
      return static_cast<uInt>(std::min<size_t>(size, 1 << 30));
    };
    const uInt given = most(input.size()), room = most(out.size());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    stream_.avail_in = given;
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = room;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      throw std::runtime_error(stream_.msg ? stream_.msg : "not enough memory");
    }
    input = input.subspan(given - stream_.avail_in);
    out = out.subspan(room - stream_.avail_out);
    at_end_ = result == Z_STREAM_END;
  }

 private:
  z_stream stream_{};
};

class ZstdDecompressor : public Decompressor {
 public:
  void step(std::span<const std::byte>& input, std::span<char>& out) override {
    ZSTD_inBuffer from{input.data(), input.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t result = ZSTD_decompressStream(stream_.get(), &to, &from);
    if (ZSTD_isError(result)) throw std::runtime_error(ZSTD_getErrorName(result));
    input = input.subspan(from.pos);
    out = out.subspan(to.pos);
    at_end_ = result == 0;
  }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_{ZSTD_createDStream(),
                                                                   &ZSTD_freeDStream};
};

std::unique_ptr<Decompressor> make_decompressor(Compression compression) {
  if (compression == Compression::gzip) return std::make_unique<GzipDecompressor>();
  return std::make_unique<ZstdDecompressor>();
}

}  // namespace

void require_size(const io::File& opened, const SourceFile& file) {
  if (opened.size() == file.size) return;
  throw IoError(fmt::format("'{}' is {} bytes long, {} were expected: it has changed", file.path,
                            opened.size(), file.size));
}

CompressedFile::CompressedFile(const SourceFile& file)
    : file_(io::File::open_for_reading(file.path)),
      size_(file.size),
      decompressor_(make_decompressor(file.compression)) {
  require_size(file_, file);
}

CompressedFile::~CompressedFile() = default;

void CompressedFile::refill() {
  buffer_.resize(std::min(kInputBytes, size_ - position_));
  file_.read_at(buffer_, position_);
  position_ += std::ssize(buffer_);
  input_ = buffer_;
}

bool CompressedFile::skip_zeros() {
  for (;;) {
    const auto other = std::ranges::find_if(input_, [](std::byte b) { return b != std::byte{0}; });
    input_ = input_.subspan(static_cast<size_t>(other - input_.begin()));
    if (!input_.empty()) return false;
    if (position_ == size_) return true;
    refill();
  }
}

size_t CompressedFile::read(std::span<char> out) {
  const size_t wanted = out.size();
  while (!out.empty()) {
    if (input_.empty() && position_ < size_) refill();
    if (decompressor_->at_end_of_stream() && skip_zeros()) break;
    const size_t room = out.size(), given = input_.size();
    try {
      decompressor_->step(input_, out);
    } catch (const std::runtime_error& error) {
      throw IoError(fmt::format("cannot decompress '{}': {}", file_.path().string(), error.what()));
    }
    const bool stands_still = out.size() == room && input_.size() == given;
    if (stands_still && position_ == size_ && !decompressor_->at_end_of_stream()) {
      throw IoError(fmt::format("cannot decompress '{}': it ends within its compressed data",
                                file_.path().string()));
    }
  }
  return wanted - out.size();
}

}  // namespace colossal::data
