// A writer of protocol buffer messages, limited to what TensorBoard events need (wire format:
// protobuf.dev/programming-guides/encoding). Write a nested message with its own writer and add it
// with bytes().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colossal::report {

class ProtobufWriter {
 public:
  // int64 or enum; negative values take ten bytes, as the format requires.
  void varint(uint32_t field, int64_t value);
  void fixed64(uint32_t field, double value);
  void fixed32(uint32_t field, float value);
  void bytes(uint32_t field, std::string_view value);  // string, bytes or nested message

  const std::string& encoded() const { return encoded_; }

 private:
  void append_tag(uint32_t field, uint32_t wire_type);

  std::string encoded_;
};

// Appends 7 bits per byte, lowest first; the top bit of a byte says that more bytes follow.
void append_varint(std::string& out, uint64_t value);

// Appends the lowest byte first, regardless of the machine's byte order.
void append_little_endian(std::string& out, uint64_t value, int num_bytes);

}  // namespace colossal::report
