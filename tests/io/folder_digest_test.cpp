#include "colossal/io/folder_digest.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

TEST(FolderDigest, IsThatOfWhatAModelIsReadFrom) {
  const colossal::test::TemporaryDirectory directory(colossal::test::Storage::memory);
  std::string weights(1 << 20, 'w');
  const auto digest = [&] {
    directory.write("model.safetensors", weights);
    return folder_digest(directory.path()).model;
  };
  directory.write("config.json", "{}");
  const std::string before = digest();
  EXPECT_EQ(digest(), before);
  directory.write("README.md", "of no model");
  EXPECT_EQ(digest(), before);
  for (char& each : weights) each = 'v';
  EXPECT_NE(digest(), before);
  weights = std::string((1 << 20) + 1, 'w');
  EXPECT_NE(digest(), before);
  weights.pop_back();
  EXPECT_EQ(digest(), before);
  weights.back() = 'v';
  EXPECT_NE(digest(), before);
  weights.back() = 'w';
  directory.write("config.json", "{ }");
  EXPECT_NE(digest(), before);
}

TEST(FolderDigest, TellsTheChatTemplateFromTheModel) {
  const colossal::test::TemporaryDirectory directory(colossal::test::Storage::memory);
  directory.write("config.json", "{}");
  const FolderDigest without = folder_digest(directory.path());
  EXPECT_EQ(without.chat_template, "");
  directory.write("chat_template.jinja", "{{ messages }}");
  const FolderDigest before = folder_digest(directory.path());
  EXPECT_EQ(before.model, without.model);
  EXPECT_NE(before.chat_template, "");
  directory.write("chat_template.jinja", "{{ messages }} ");
  EXPECT_EQ(folder_digest(directory.path()).model, before.model);
  EXPECT_NE(folder_digest(directory.path()).chat_template, before.chat_template);
}

TEST(FolderDigest, IsThatOfASingleFile) {
  const colossal::test::TemporaryDirectory directory(colossal::test::Storage::memory);
  const std::string file = directory.write("model.gguf", "numbers");
  const std::string before = folder_digest(file).model;
  directory.write("model.gguf", "letters");
  EXPECT_NE(folder_digest(file).model, before);
}

}  // namespace
}  // namespace colossal::io
