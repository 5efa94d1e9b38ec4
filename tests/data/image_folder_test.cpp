#include "colossal/data/images/image_folder.h"

#include <gmock/gmock.h>

#include "tests/data/image_files.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string folder_refusal(const std::string& folder, const ImageSourceOptions& options = {}) {
  return message_of<ConfigError>([&] { open_images(folder, options); });
}

std::vector<std::string> names(const ImageSource& source, const TextFolder& folder) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < source.size(); ++i) {
    names.push_back(source.read(i).name.substr((folder / "").size()));
  }
  return names;
}

TEST(ImageFolder, HasAClassForEachSubfolderInTheOrderOfTorchvision) {
  TextFolder folder;
  for (const char* name : {"dog/b.png", "dog/a.JPG", "cat/x/1.jpeg", "cat/z.webp", "Zebra/1.png",
                           "cat/x-y/0.png", "dog/.hidden.png"}) {
    folder.write(name, name);
  }
  const auto source = open_images(folder / "");
  EXPECT_THAT(source->classes(), ElementsAre("Zebra", "cat", "dog"));
  EXPECT_THAT(names(*source, folder), ElementsAre("Zebra/1.png", "cat/z.webp", "cat/x-y/0.png",
                                                  "cat/x/1.jpeg", "dog/a.JPG", "dog/b.png"));
  for (int64_t i = 0; i < source->size(); ++i) {
    const ImageSample sample = source->read(i);
    EXPECT_EQ(sample.label, source->label(i));
    EXPECT_TRUE(sample.name.ends_with(sample.content)) << sample.name;
    EXPECT_THAT(sample.name, HasSubstr("/" + source->classes()[*sample.label] + "/"));
  }
}

TEST(ImageFolder, TakesGivenClassesInTheirOrderAndRefusesOthers) {
  TextFolder folder;
  folder.write("dog/1.png", "");
  folder.write("cat/1.png", "");
  const auto source = open_images(folder / "", {.classes = {"dog", "fish", "cat"}});
  EXPECT_THAT(source->classes(), ElementsAre("dog", "fish", "cat"));
  EXPECT_EQ(source->label(0), 2);  // cat comes first in the folder
  EXPECT_EQ(source->label(1), 0);
  EXPECT_THAT(
      folder_refusal(folder / "", {.setting = "data.validation", .classes = {"dogs", "cat"}}),
      AllOf(HasSubstr("data.validation"), HasSubstr(folder / "dog"), HasSubstr("dogs")));
}

TEST(ImageFolder, WithoutClassesHasAllImagesAndNoLabels) {
  TextFolder folder;
  for (const char* name : {"b.png", "a.jpg", "x/y/1.webp", "x/0.png", "notes.txt", ".hidden.png"}) {
    folder.write(name, name);
  }
  const auto source = open_images(folder / "", {.folder_has_classes = false});
  EXPECT_TRUE(source->classes().empty());
  EXPECT_THAT(names(*source, folder), ElementsAre("a.jpg", "b.png", "x/0.png", "x/y/1.webp"));
  for (int64_t i = 0; i < source->size(); ++i) {
    EXPECT_EQ(source->label(i), std::nullopt);
    EXPECT_EQ(source->read(i).label, std::nullopt);
  }
  TextFolder empty;
  empty.write("notes.txt", "");
  EXPECT_THAT(folder_refusal(empty / "", {.folder_has_classes = false}),
              AllOf(HasSubstr("data.train"), HasSubstr("has no images"), HasSubstr(".png")));
}

TEST(ImageFolder, WithoutImagesIsRefused) {
  TextFolder folder;
  folder.write("readme.txt", "");
  EXPECT_THAT(folder_refusal(folder / ""),
              AllOf(HasSubstr(folder / ""), HasSubstr("no subfolders")));
  folder.write("cat/1.png", "");
  folder.write("dog/1.gif", "");
  EXPECT_THAT(folder_refusal(folder / ""),
              AllOf(HasSubstr(folder / "dog"), HasSubstr("no images")));
}

TEST(ImageFolder, FingerprintNoticesOtherDataButNotAnotherPlace) {
  const auto fingerprint = [](const std::string& name, const std::string& content) {
    TextFolder folder;
    folder.write("cat/1.png", "abc");
    folder.write(name, content);
    return open_images(folder / "")->fingerprint();
  };
  const std::string one = fingerprint("dog/1.png", "abc");
  EXPECT_EQ(fingerprint("dog/1.png", "xyz"), one);  // contents are not read
  EXPECT_NE(fingerprint("dog/1.png", "abcd"), one);
  EXPECT_NE(fingerprint("dog/2.png", "abc"), one);
  EXPECT_NE(fingerprint("cow/1.png", "abc"), one);
}

TEST(ImageFolder, AnImageThatIsGoneIsNamed) {
  TextFolder folder;
  const std::string path = folder.write("cat/1.png", "abc");
  const auto source = open_images(folder / "");
  std::filesystem::remove(path);
  EXPECT_THAT(message_of<IoError>([&] { source->read(0); }), HasSubstr(path));
}

}  // namespace
}  // namespace colossal::data
