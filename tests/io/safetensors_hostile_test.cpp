// Files with wrong contents, each by name: which are refused, and with which message.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/io/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using test::raw_safetensors;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string with_length(uint64_t length, std::string_view rest) {
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(rest);
}

struct Lie {
  const char* name;
  std::string file;
  const char* words;
};
void PrintTo(const Lie& lie, std::ostream* out) {
  *out << lie.name;
}

std::string tensor(std::string_view fields) {
  return fmt::format(R"({{"w":{{{}}}}})", fields);
}

std::string shaped(std::string_view shape, std::string_view offsets, size_t data) {
  return raw_safetensors(
      tensor(fmt::format(R"("dtype":"F32","shape":{},"data_offsets":{})", shape, offsets)), data);
}

std::string two(int a, int b, int c, int d, size_t data) {
  return raw_safetensors(
      fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                  R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                  b - a, a, b, d - c, c, d),
      data);
}

std::vector<Lie> lies_about_the_frame() {
  const std::string good = shaped("[2]", "[0,8]", 8);
  return {
      {"EmptyFile", "", "too short"},
      {"SevenBytes", std::string(7, '\0'), "too short"},
      {"HeaderOfNoBytes", with_length(0, ""), "does not begin with '{'"},
      {"HeaderBeyondTheFile", with_length(11, "{}"), "states a header of 11 bytes"},
      {"HeaderOfTwoToTheSixty", with_length(uint64_t{1} << 60, "{}"), "states a header"},
      {"HeaderLengthThatWraps", with_length(~uint64_t{0} - 7, "{}"), "states a header"},
      {"DataCut", good.substr(0, good.size() - 1), "holds 7 bytes of data"},
      {"DataAfterTheEnd", good + "x", "holds 9 bytes of data"},
      {"DataWithoutTensors", raw_safetensors("{}", 1), "holds 1 bytes of data"},
      {"Zip", "PK\3\4" + std::string(100, 'x'), "pickle, which is never read"},
      {"Pickle", "\x80\2}q\1X\3\0\0\0" + std::string(100, 'x'), "pickle, which is never read"},
  };
}

std::vector<Lie> lies_in_the_syntax() {
  const auto header = [](std::string_view text) { return raw_safetensors(text, 0); };
  return {
      {"SpaceBeforeTheBrace", header(" {}"), "does not begin with '{'"},
      {"AList", header("[]"), "does not begin with '{'"},
      {"ByteOrderMark", header("\xef\xbb\xbf{}"), "does not begin with '{'"},
      {"NotJson", header("{{{}"), "not JSON"},
      {"NotUtf8", header("{\"\xff\":1}"), "not JSON"},
      {"LoneSurrogate", header("{\"\\ud800\":1}"), "not JSON"},
      {"UnclosedHeader", header("{"), "not JSON"},
      {"TextAfterTheHeader", header("{} x"), "not JSON"},
      {"SecondObject", header("{}{}"), "not JSON"},
      {"NulThenAnything", header(std::string_view("{}\0{", 4)), "NUL byte"},
      {"Comment", header("{/* */}"), "not JSON"},
      {"DeepNesting", header("{\"w\":" + std::string(100000, '[')), "is a list"},
      {"DeepObjects", header("{\"w\":{\"shape\":{\"shape\":{}}}}"),
       "has an object where its shape"},
      {"NumberForTensor", header("{\"w\":1}"), "is a number"},
      {"NullForTensor", header("{\"w\":null}"), "is null"},
      {"MetadataNumber", header(R"({"__metadata__":{"a":1}})"), "is a number"},
      {"MetadataObject", header(R"({"__metadata__":{"a":{}}})"), "is an object"},
      {"MetadataText", header(R"({"__metadata__":"a"})"), "is a string"},
      {"MetadataTwice", header(R"({"__metadata__":{},"__metadata__":{}})"), "stands twice"},
      {"MetadataKeyTwice", header(R"({"__metadata__":{"a":"b","a":"b"}})"), "stands twice"},
  };
}

std::vector<Lie> lies_about_a_tensor() {
  const auto fields = [](std::string_view text) { return raw_safetensors(tensor(text), 4); };
  const std::string rest = R"(,"shape":[1],"data_offsets":[0,4])";
  const std::string long_name(1025, 'n');
  return {
      {"UnknownType", fields(R"("dtype":"F31")" + rest), "has the type \"F31\"; known are F64"},
      {"TypeNarrowerThanAByte", fields(R"("dtype":"F4")" + rest), "has the type \"F4\""},
      {"TypeIsANumber", fields(R"("dtype":3)" + rest), "number where its dtype"},
      {"TypeIsAList", fields(R"("dtype":[])" + rest), "list where its dtype"},
      {"NoType", fields(R"("shape":[1],"data_offsets":[0,4])"), "lacks one of"},
      {"NoShape", fields(R"("dtype":"F32","data_offsets":[0,4])"), "lacks one of"},
      {"NoOffsets", fields(R"("dtype":"F32","shape":[1])"), "lacks one of"},
      {"NothingAtAll", fields(""), "lacks one of"},
      {"UnknownKey", fields(R"("dtype":"F32","strides":[1])" + rest), "unknown key \"strides\""},
      {"TypeTwice", fields(R"("dtype":"F32","dtype":"I32")" + rest), "the key \"dtype\" twice"},
      {"ShapeTwice", fields(R"("dtype":"F32","shape":[1])" + rest), "the key \"shape\" twice"},
      {"ShapeIsText", fields(R"("dtype":"F32","shape":"1","data_offsets":[0,4])"), "a string"},
      {"NegativeDim", shaped("[-1]", "[0,4]", 4), "a negative number"},
      {"MinusZero", shaped("[-0]", "[0,0]", 0), "a negative number"},
      {"FractionalDim", shaped("[1.0]", "[0,4]", 4), "a fraction"},
      {"TextDim", shaped("[\"1\"]", "[0,4]", 4), "a string"},
      {"NestedShape", shaped("[[1]]", "[0,4]", 4), "a list"},
      {"NineDims", shaped("[1,1,1,1,1,1,1,1,1]", "[0,4]", 4), "more than 8 numbers in its shape"},
      {"DimOfManyDigits", shaped("[" + std::string(100000, '1') + "]", "[0,4]", 4), "not JSON"},
      {"DimOfTwoToThe64", shaped("[18446744073709551616]", "[0,4]", 4), "a fraction"},
      {"DimOfTwoToThe63", shaped("[9223372036854775808]", "[0,4]", 4), "more than 63 bits"},
      {"DimOfTwoToThe60", shaped("[1152921504606846976]", "[0,4]", 4), "is 4611686018427387904"},
      {"ProductThatOverflows", shaped("[4294967296,4294967296]", "[0,0]", 0), "more bytes than 63"},
      {"ProductThatWrapsToFour", shaped("[9223372036854775807,2,2]", "[0,4]", 4),
       "more bytes than 63"},
      {"ElementSizeThatOverflows", shaped("[4611686018427387904]", "[0,0]", 0),
       "more bytes than 63"},
      {"NameTooLong",
       raw_safetensors("{\"" + long_name + R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                       1),
       "is 1025 bytes long"},
  };
}

std::vector<Lie> lies_about_offsets() {
  const std::string one = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  return {
      {"OneOffset", shaped("[0]", "[0]", 0), "1 data_offsets instead of 2"},
      {"NoOffsetAtAll", shaped("[0]", "[]", 0), "0 data_offsets instead of 2"},
      {"ThreeOffsets", shaped("[1]", "[0,4,4]", 4), "more than 2 numbers"},
      {"OffsetsBackwards", shaped("[1]", "[4,0]", 4), "its data_offsets are [4, 0]"},
      {"SizeBelowShape", shaped("[2]", "[0,4]", 4), "is 8 bytes by its shape [2]"},
      {"SizeAboveShape", shaped("[1]", "[0,8]", 8), "is 4 bytes by its shape [1]"},
      {"OffsetsOutside", shaped("[2]", "[0,8]", 4), "holds 4 bytes of data"},
      {"OffsetsFarOutside", shaped("[1]", "[1152921504606846976,1152921504606846980]", 4),
       "without holes"},
      {"NegativeOffset", shaped("[1]", "[-4,0]", 4), "a negative number"},
      {"DoesNotBeginAtZero", shaped("[1]", "[4,8]", 8), "without holes"},
      {"Overlap", two(0, 4, 2, 6, 6), "without overlaps"},
      {"SameBytesTwice", two(0, 4, 0, 4, 4), "without overlaps"},
      {"Hole", two(0, 4, 6, 8, 8), "without holes"},
      {"NameTwice", raw_safetensors("{\"w\":" + one + ",\"w\":" + one + "}", 0),
       "the tensor \"w\" twice"},
      {"NameTwiceByEscape", raw_safetensors("{\"w\":" + one + ",\"\\u0077\":" + one + "}", 0),
       "the tensor \"w\" twice"},
  };
}

class HostileSafetensorsTest : public ::testing::TestWithParam<Lie> {};

TEST_P(HostileSafetensorsTest, IsRefusedWithTheReason) {
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  const auto path = folder / "lie.safetensors";
  test::write_text(path, GetParam().file);
  EXPECT_THAT(test::message_of([&] { const SafetensorsReader reader(path); }),
              AllOf(HasSubstr(path.string()), HasSubstr(GetParam().words)));
}

std::string name_of(const ::testing::TestParamInfo<Lie>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Frame, HostileSafetensorsTest, ::testing::ValuesIn(lies_about_the_frame()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Syntax, HostileSafetensorsTest, ::testing::ValuesIn(lies_in_the_syntax()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Tensor, HostileSafetensorsTest, ::testing::ValuesIn(lies_about_a_tensor()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Offsets, HostileSafetensorsTest, ::testing::ValuesIn(lies_about_offsets()),
                         name_of);

TEST(SafetensorsLimitTest, AHeaderOver64MebibytesIsRefusedUnread) {
  const colossal::test::TemporaryDirectory folder;
  test::write_text(folder / "long.safetensors", with_length(kMaxHeaderBytes + 1, "{}"));
  std::filesystem::resize_file(folder / "long.safetensors", 2 * kMaxHeaderBytes);
  EXPECT_THAT(
      test::message_of([&] { const SafetensorsReader reader(folder / "long.safetensors"); }),
      HasSubstr("at most 67108864 are read"));
}

TEST(SafetensorsLimitTest, MoreThanAMillionTensorsAreRefused) {
  std::string header = "{";
  for (int64_t i = 0; i <= kMaxTensors; ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          i > 0 ? "," : "", i);
  }
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  test::write_text(folder / "many.safetensors", raw_safetensors(header + "}", 0));
  EXPECT_THAT(
      test::message_of([&] { const SafetensorsReader reader(folder / "many.safetensors"); }),
      HasSubstr("more than 1000000 tensors"));
}

}  // namespace
}  // namespace colossal::io
