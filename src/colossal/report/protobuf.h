// Protocol buffer messages, as far as TensorBoard's events need them: the wire format of
// protobuf.dev/programming-guides/encoding, written field by field. A nested message is a writer of
// its own, put into the outer one with bytes().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colossal::report {

class ProtobufWriter {
 public:
  // int64, enum: negative values take ten bytes, as the format wants.
  void varint(uint32_t field, int64_t value);
  void fixed64(uint32_t field, double value);
  void fixed32(uint32_t field, float value);
  void bytes(uint32_t field, std::string_view value);  // string, bytes, nested message

  const std::string& encoded() const { return encoded_; }

 private:
  void append_tag(uint32_t field, uint32_t wire_type);

  std::string encoded_;
};

// Seven bits a byte, lowest first; the top bit says that more follow.
void append_varint(std::string& out, uint64_t value);

// The lowest byte first, on any machine.
void append_little_endian(std::string& out, uint64_t value, int num_bytes);

}  // namespace colossal::report
