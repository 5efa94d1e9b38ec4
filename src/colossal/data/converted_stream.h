// ConvertedStream: the base of streams that make JSON lines of another format.
#pragma once

#include <algorithm>
#include <string>

#include "colossal/data/byte_stream.h"

namespace colossal::data {

inline constexpr size_t kConvertedAtOnce = size_t{1} << 20;  // bytes of the other format

class ConvertedStream : public ByteStream {
 public:
  size_t read(std::span<char> out) final {
    while (lines_.size() - given_ < out.size() && !ended_) {
      lines_.erase(0, given_);
      given_ = 0;
      ended_ = !convert(lines_);
    }
    const size_t count = std::min(out.size(), lines_.size() - given_);
    std::copy_n(lines_.data() + given_, count, out.data());
    given_ += count;
    return count;
  }

 protected:
  // Appends the lines of the next rows to `lines`, each with a line feed. Returns false at the end.
  virtual bool convert(std::string& lines) = 0;

 private:
  std::string lines_;
  size_t given_ = 0;  // bytes of lines_ that read() has returned
  bool ended_ = false;
};

}  // namespace colossal::data
