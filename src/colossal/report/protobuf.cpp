#include "colossal/report/protobuf.h"

#include <bit>

namespace colossal::report {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

}  // namespace

void append_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void append_little_endian(std::string& out, uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void ProtobufWriter::append_tag(uint32_t field, uint32_t wire_type) {
  append_varint(encoded_, field << 3 | wire_type);
}

void ProtobufWriter::varint(uint32_t field, int64_t value) {
  append_tag(field, kVarint);
  append_varint(encoded_, static_cast<uint64_t>(value));
}

void ProtobufWriter::fixed64(uint32_t field, double value) {
  append_tag(field, kFixed64);
  append_little_endian(encoded_, std::bit_cast<uint64_t>(value), 8);
}

void ProtobufWriter::fixed32(uint32_t field, float value) {
  append_tag(field, kFixed32);
  append_little_endian(encoded_, std::bit_cast<uint32_t>(value), 4);
}

void ProtobufWriter::bytes(uint32_t field, std::string_view value) {
  append_tag(field, kLengthDelimited);
  append_varint(encoded_, value.size());
  encoded_.append(value);
}

}  // namespace colossal::report
