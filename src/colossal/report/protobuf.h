// A writer of protocol buffer messages, limited to what TensorBoard events need (tensorboard.h).
// Wire format: protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colossal::report {

// Writes one message. Each function appends a field; `field` is the field's number in the message's
// definition. To write a nested message, write it with a ProtobufWriter of its own, and add its
// encoded() with bytes().
class ProtobufWriter {
 public:
  // For fields of type int64, int32, bool or enum; a negative value takes ten bytes, as the format
  // requires.
  void varint(uint32_t field, int64_t value);
  void fixed64(uint32_t field, double value);          // for fields of type double
  void fixed32(uint32_t field, float value);           // for fields of type float
  void bytes(uint32_t field, std::string_view value);  // for string, bytes or a nested message

  // Returns the message written so far.
  const std::string& encoded() const { return encoded_; }

 private:
  void append_tag(uint32_t field, uint32_t wire_type);

  std::string encoded_;
};

// Appends a value as a varint: 7 bits per byte, lowest bits first; the top bit of a byte is 1 if
// more bytes follow.
void append_varint(std::string& out, uint64_t value);

// Appends the num_bytes lowest bytes of a value, lowest byte first, regardless of the machine's
// byte order.
void append_little_endian(std::string& out, uint64_t value, int num_bytes);

}  // namespace colossal::report
