#include "colossal/report/protobuf.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace colossal::report {
namespace {

using namespace std::string_literals;

std::string varint(uint64_t value) {
  std::string out;
  append_varint(out, value);
  return out;
}

TEST(Protobuf, VarintsAtTheBorders) {
  EXPECT_EQ(varint(0), "\x00"s);
  EXPECT_EQ(varint(1), "\x01"s);
  EXPECT_EQ(varint(127), "\x7F"s);
  EXPECT_EQ(varint(128), "\x80\x01"s);
  EXPECT_EQ(varint(150), "\x96\x01"s);
  EXPECT_EQ(varint(16383), "\xFF\x7F"s);
  EXPECT_EQ(varint(16384), "\x80\x80\x01"s);
  EXPECT_EQ(varint(std::numeric_limits<uint64_t>::max()), std::string(9, '\xFF') + "\x01");
}

// The examples of Protobuf's encoding guide.
TEST(Protobuf, Fields) {
  ProtobufWriter number;
  number.varint(1, 150);
  EXPECT_EQ(number.encoded(), "\x08\x96\x01"s);

  ProtobufWriter text;
  text.bytes(2, "testing");
  EXPECT_EQ(text.encoded(), "\x12\x07testing"s);

  ProtobufWriter nested;
  nested.bytes(3, number.encoded());
  EXPECT_EQ(nested.encoded(), "\x1a\x03\x08\x96\x01"s);
}

TEST(Protobuf, NegativeNumbersTakeTenBytes) {
  ProtobufWriter writer;
  writer.varint(1, -1);
  EXPECT_EQ(writer.encoded(), "\x08"s + std::string(9, '\xFF') + "\x01");
}

TEST(Protobuf, FloatsAreLittleEndian) {
  ProtobufWriter writer;
  writer.fixed32(2, 1.0F);
  writer.fixed64(1, -2.0);
  EXPECT_EQ(writer.encoded(), "\x15\x00\x00\x80\x3F\x09\x00\x00\x00\x00\x00\x00\x00\xC0"s);
}

TEST(Protobuf, FieldNumbersAbove15TakeTwoBytes) {
  ProtobufWriter writer;
  writer.varint(16, 1);
  EXPECT_EQ(writer.encoded(), "\x80\x01\x01"s);
}

}  // namespace
}  // namespace colossal::report
