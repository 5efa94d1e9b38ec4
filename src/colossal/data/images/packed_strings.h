// PackedStrings: many short strings in one block of memory, without the 32 bytes or more that each
// std::string takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::data {

class PackedStrings {
 public:
  void push_back(std::string_view text) {
    text_ += text;
    ends_.push_back(text_.size());
  }
  // Returns memory that was reserved for more strings.
  void shrink_to_fit() {
    text_.shrink_to_fit();
    ends_.shrink_to_fit();
  }
  int64_t size() const { return std::ssize(ends_); }
  std::string_view operator[](int64_t i) const {
    const uint64_t begin = i == 0 ? 0 : ends_[static_cast<size_t>(i - 1)];
    return std::string_view(text_).substr(begin, ends_[static_cast<size_t>(i)] - begin);
  }

 private:
  std::string text_;
  std::vector<uint64_t> ends_;
};

}  // namespace colossal::data
