#include "colossal/data/images/image_shards.h"

#include <gmock/gmock.h>

#include "tests/data/image_files.h"
#include "tests/data/tar_archive.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

std::string shard_refusal(const TarMembers& members) {
  TextFolder folder;
  const std::string path = folder.write("a.tar", tar_archive(members));
  const std::string message = message_of<ConfigError>([&] { open_images(path); });
  EXPECT_THAT(message, HasSubstr(path));
  return message;
}

TEST(ImageShards, NeighboursWithTheSameKeyAreASample) {
  TextFolder folder;
  folder.write("a-0.tar", tar_archive({{"x/1.cls", "dog\n"},
                                       {"x/1.JPG", "image 1"},
                                       {"x/1.txt", " a dog \n"},
                                       {"x/2.png", "image 2"},
                                       {"x/2.json", R"({"label": "cat", "caption": "a cat"})"}}));
  folder.write("a-1.tar", tar_archive({{"3.webp", "image 3"}, {"3.cls", "dog"}, {"3.npy", "..."}}));
  for (const char* const pattern : {"a-*.tar", "a-{0,1}.tar", "a-{0..1}.tar"}) {
    const auto source = open_images(folder / pattern);
    ASSERT_EQ(source->size(), 3) << pattern;
    EXPECT_THAT(source->classes(), ElementsAre("cat", "dog"));
    const ImageSample first = source->read(0), second = source->read(1), third = source->read(2);
    EXPECT_EQ(first.content, "image 1");
    EXPECT_EQ(first.name, folder / "a-0.tar: x/1.JPG");
    EXPECT_THAT(first.label, Optional(1));
    EXPECT_EQ(first.text, "a dog");
    EXPECT_EQ(second.content, "image 2");
    EXPECT_THAT(second.label, Optional(0));
    EXPECT_EQ(second.text, "a cat");
    EXPECT_EQ(third.content, "image 3");
    EXPECT_THAT(third.label, Optional(1));
    EXPECT_EQ(third.text, "");
  }
}

TEST(ImageShards, LabelsMayBeNumbersOrMissing) {
  TextFolder folder;
  folder.write("a.tar", tar_archive({{"1.jpg", "x"}, {"1.cls", "7"}, {"2.jpg", "y"}}));
  const auto source = open_images(folder / "a.tar");
  EXPECT_EQ(source->classes().size(), 8u);
  EXPECT_EQ(source->classes().back(), "7");
  EXPECT_THAT(source->label(0), Optional(7));
  EXPECT_EQ(source->label(1), std::nullopt);
  EXPECT_THAT(message_of<ConfigError>([&] {
                open_images(folder / "a.tar", {.classes = {"a", "b", "c"}});
              }),
              AllOf(HasSubstr("the label is 7"), HasSubstr("from 0 to 2")));
}

TEST(ImageShards, MistakesAreNamed) {
  EXPECT_THAT(shard_refusal({{"1.cls", "3"}}),
              AllOf(HasSubstr("1 has a label"), HasSubstr(".webp")));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"1.png", ""}}),
              AllOf(HasSubstr("1.png"), HasSubstr("second file of its kind")));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"2.jpg", ""}, {"1.cls", "3"}}),
              AllOf(HasSubstr("1.cls"), HasSubstr("neighbours")));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"1.json", "[1]"}}),
              AllOf(HasSubstr("1.json"), HasSubstr("object")));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"1.json", "{"}}), HasSubstr("no JSON"));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"1.json", R"({"label": 1.5})"}}), HasSubstr("1.5"));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"1.cls", "1"}, {"1.json", R"({"label": 2})"}}),
              HasSubstr("in .cls and in .json"));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"1.cls", " \n"}}), HasSubstr("is empty"));
  EXPECT_THAT(shard_refusal({{"1.jpg", ""}, {"1.cls", "1"}, {"2.jpg", ""}, {"2.cls", "cat"}}),
              HasSubstr("earlier labels are numbers"));
  EXPECT_THAT(shard_refusal({{"1.npy", ""}}), HasSubstr("no images"));
}

TEST(ImageShards, CannotBeMixedWithOtherFiles) {
  TextFolder folder;
  folder.write("a.tar", tar_archive({{"1.jpg", ""}}));
  folder.write("a.jsonl", "");
  EXPECT_THAT(message_of<ConfigError>([&] { open_images(folder / "a.*"); }),
              AllOf(HasSubstr("a.jsonl"), HasSubstr("mixed")));
}

TEST(ImageShards, FingerprintNoticesLabelsTextsAndSizes) {
  const auto fingerprint = [](const TarMembers& members) {
    TextFolder folder;
    folder.write("a.tar", tar_archive(members));
    return open_images(folder / "a.tar")->fingerprint();
  };
  const std::string one = fingerprint({{"1.jpg", "abc"}, {"1.cls", "1"}, {"1.txt", "a"}});
  EXPECT_EQ(fingerprint({{"1.jpg", "xyz"}, {"1.cls", "1"}, {"1.txt", "a"}}), one);
  EXPECT_NE(fingerprint({{"1.jpg", "abcd"}, {"1.cls", "1"}, {"1.txt", "a"}}), one);
  EXPECT_NE(fingerprint({{"1.jpg", "abc"}, {"1.cls", "2"}, {"1.txt", "a"}}), one);
  EXPECT_NE(fingerprint({{"1.jpg", "abc"}, {"1.cls", "1"}, {"1.txt", "b"}}), one);
  EXPECT_NE(fingerprint({{"2.jpg", "abc"}, {"2.cls", "1"}, {"2.txt", "a"}}), one);
}

}  // namespace
}  // namespace colossal::data
