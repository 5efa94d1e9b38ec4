#include "colossal/data/compressed_file.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/data/compressed_text.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CompressedFiles : public ::testing::TestWithParam<const char*> {
 protected:
  std::string write(std::string_view content) const {
    return folder_.write(std::string("a") + GetParam(), content);
  }

  // Returns the content, read at_once bytes at a time.
  std::string read(size_t at_once = 1000) const {
    const SourceFile source = find_source_files(std::vector{folder_ / "*"}, "data.train").front();
    CompressedFile file(source);
    std::string content;
    size_t length = at_once;
    while (length == at_once) {
      std::string part(at_once, '\0');
      length = file.read(part);
      content += part.substr(0, length);
    }
    EXPECT_EQ(file.bytes_read(), source.size);
    return content;
  }

  std::string compressed(std::string_view text) const { return as_stored(GetParam(), text); }

  TextFolder folder_;
};

TEST_P(CompressedFiles, GiveTheirContent) {
  std::mt19937 random(1);
  std::string text(700'000, '\0');  // more than one read of the file
  for (char& c : text) c = static_cast<char>(random() >> 24);
  for (const std::string& content : {text, std::string(2'000'000, 'a'), std::string("x")}) {
    write(compressed(content));
    EXPECT_EQ(read(100'000), content);
  }
  EXPECT_EQ(read(1), "x");
  write(compressed(""));
  EXPECT_EQ(read(), "");
}

TEST_P(CompressedFiles, MayBeSeveralOneAfterTheOther) {
  write(compressed("some text\n") + compressed("") + compressed("and more"));
  EXPECT_EQ(read(), "some text\nand more");
  EXPECT_EQ(read(3), "some text\nand more");
}

TEST_P(CompressedFiles, NameWhatIsDamaged) {
  const std::string whole = compressed(std::string(10'000, 'a') + "bcd");
  for (size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    EXPECT_THAT(message_of<IoError>([&] { read(); }),
                AllOf(HasSubstr(folder_ / "a"), HasSubstr("ends within its compressed data")));
  }
  write("plain text");
  EXPECT_THAT(message_of<IoError>([&] { read(); }), HasSubstr("cannot decompress"));
  write(whole + "rubbish");
  EXPECT_THAT(message_of<IoError>([&] { read(); }), HasSubstr("cannot decompress"));
}

TEST_P(CompressedFiles, MayNotChangeMeanwhile) {
  write(compressed("a"));
  SourceFile source = find_source_files(std::vector{folder_ / "*"}, "data.train").front();
  source.size += 1;
  EXPECT_THAT(message_of<IoError>([&] { CompressedFile{source}; }),
              AllOf(HasSubstr(source.path), HasSubstr("has changed")));
}

// Tapes and block devices fill their last block with zeros.
TEST_P(CompressedFiles, MayEndInZeros) {
  write(compressed("some text") + std::string(300'000, '\0'));
  EXPECT_EQ(read(), "some text");
  write(compressed("some text") + std::string(512, '\0') + "rubbish");
  EXPECT_THAT(message_of<IoError>([&] { read(); }), HasSubstr("cannot decompress"));
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, CompressedFiles, ::testing::Values(".gz", ".zst"));

}  // namespace
}  // namespace colossal::data
