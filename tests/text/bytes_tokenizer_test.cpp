#include "colossal/text/tokenizer/bytes_tokenizer.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace colossal::text {
namespace {

std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

TEST(BytesTokenizer, TokenIsTheByte) {
  const auto tokenizer = make_tokenizer("bytes");
  const std::vector<int32_t> tokens = tokenizer->encode(all_bytes());
  ASSERT_EQ(tokens.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(tokens[byte], byte);
  EXPECT_EQ(tokenizer->decode(tokens), all_bytes());
  EXPECT_EQ(tokenizer->vocabulary_size(), 257);
  EXPECT_EQ(tokenizer->end_of_text(), 256);
  EXPECT_EQ(tokenizer->encode("<|endoftext|>").size(), 13u);
  EXPECT_TRUE(tokenizer->encode("").empty());
  EXPECT_TRUE(tokenizer->is_concatenative());
}

TEST(BytesTokenizer, DecodesNothingForWhatIsNoToken) {
  const std::vector<int32_t> tokens = {'a', 256, -1, 257, 1 << 30, 'b'};
  EXPECT_EQ(BytesTokenizer().decode(tokens), "a<|endoftext|>b");
}

TEST(BytesTokenizer, ItsFilesGiveTheSameTokens) {
  const test::TemporaryDirectory folder;
  for (const auto& [name, content] : BytesTokenizer().files()) folder.write(name, content);
  for (const auto& path : {folder.path(), folder.path() / "tokenizer.json"}) {
    const auto read_back = make_tokenizer(path.string());
    EXPECT_EQ(read_back->vocabulary_size(), 257);
    EXPECT_EQ(read_back->end_of_text(), 256);
    for (const std::string text :
         {"def f(x):\n\treturn x\r\n", "na\u00EFve \U0001F600\0!", "a<|endoftext|>b", ""}) {
      EXPECT_EQ(read_back->encode(text), BytesTokenizer().encode(text));
      EXPECT_EQ(read_back->decode(read_back->encode(text)), text);
    }
    std::vector<int32_t> every_byte(256);
    for (int byte = 0; byte < 256; ++byte) every_byte[byte] = byte;
    EXPECT_EQ(read_back->decode(every_byte), all_bytes());
    EXPECT_EQ(read_back->files(), BytesTokenizer().files());
    EXPECT_TRUE(read_back->is_concatenative());  // it is a BytesTokenizer, which accepts any bytes
  }
}

TEST(BytesTokenizer, FilesOfAnotherAreNotTakenForItsOwn) {
  const test::TemporaryDirectory folder;
  for (const auto& [name, content] : BytesTokenizer().files()) folder.write(name, content);
  folder.write("chat_template.jinja", "{{ messages }}");
  const auto with_template = make_tokenizer(folder.path().string());
  EXPECT_TRUE(with_template->is_concatenative());
  EXPECT_EQ(with_template->files().back().second, "{{ messages }}");
  folder.write(kTokenizerConfigFile, R"({"eos_token": "<|endoftext|>"})");
  EXPECT_FALSE(make_tokenizer(folder.path().string())->is_concatenative());
}

}  // namespace
}  // namespace colossal::text
