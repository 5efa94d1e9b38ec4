#include "colossal/data/images/image_tables.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>

#include "tests/data/image_files.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// Parquet files that image_tables_oracle.py writes.
class ImageTables : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TextFolder;
    const std::string command =
        fmt::format("'{0}/.venv/bin/python' '{0}/tests/data/image_tables_oracle.py' '{1}'",
                    COLOSSAL_TEST_SOURCE_DIR, *folder_ / "");
    status_ = std::system(command.c_str());
  }
  static void TearDownTestSuite() { delete folder_; }
  void SetUp() override { ASSERT_EQ(status_, 0) << "the Python side failed"; }

  static std::string path(const std::string& name) { return *folder_ / name; }

 private:
  static TextFolder* folder_;
  static int status_;
};

TextFolder* ImageTables::folder_ = nullptr;
int ImageTables::status_ = 0;

TEST_F(ImageTables, AreReadInAnyOrder) {
  const auto source = open_images(path("a-*.parquet"));
  ASSERT_EQ(source->size(), 9);
  EXPECT_EQ(source->classes().size(), 6u);
  for (const int64_t i : {8, 0, 3, 2, 7, 6, 0, 5, 1, 4, 8}) {
    const ImageSample sample = source->read(i);
    EXPECT_EQ(sample.content, fmt::format("\xff image {}", i));
    EXPECT_EQ(sample.label, i == 8 ? std::nullopt : std::optional<int64_t>(i == 7 ? 5 : i % 3));
    EXPECT_EQ(sample.text, i == 7 ? "seven" : i == 8 ? "eight" : "");
    EXPECT_EQ(sample.name, fmt::format("{}, row {}", path(i < 7 ? "a-0.parquet" : "a-1.parquet"),
                                       i < 7 ? i + 1 : i - 6));
  }
}

TEST_F(ImageTables, MayNameTheirColumnAsTheyLike) {
  const auto source = open_images(path("named.parquet"));
  EXPECT_THAT(source->classes(), ElementsAre("a", "b"));
  EXPECT_EQ(source->read(1).content, "\xff image 1");
  EXPECT_THAT(source->label(1), Optional(0));
}

TEST_F(ImageTables, MayHaveNoOtherColumn) {
  const auto source = open_images(path("alone.parquet"));
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->read(1).content, "\xff two");
  EXPECT_EQ(source->label(1), std::nullopt);
}

TEST_F(ImageTables, AreReadByManyThreads) {
  const auto source = open_images(path("a-*.parquet"));
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int64_t thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int64_t k = 0; k < 30; ++k) {
          const int64_t i = (thread + k * (1 + thread % 3)) % 9;
          if (source->read(i).content != fmt::format("\xff image {}", i)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(ImageTables, MistakesAreNamed) {
  EXPECT_THAT(message_of<IoError>([] { open_images(path("two.parquet")); }),
              AllOf(HasSubstr("two.parquet"), HasSubstr("\"image\" and \"mask\"")));
  EXPECT_THAT(message_of<ConfigError>([] { open_images(path("label.parquet")); }),
              AllOf(HasSubstr("label.parquet' row 1"), HasSubstr("1.5")));
  EXPECT_THAT(message_of<ConfigError>([] { open_images(path("{a-0,paths}.parquet")); }),
              AllOf(HasSubstr("paths.parquet"), HasSubstr("mixed")));
  EXPECT_THAT(message_of<ConfigError>([] { open_images(path("table.arrow")); }),
              AllOf(HasSubstr("table.arrow"), HasSubstr("as Parquet")));
  const auto source = open_images(path("missing.parquet"));
  EXPECT_EQ(source->read(0).content, "x");
  for (const int64_t i : {1, 2}) {
    EXPECT_THAT(message_of<IoError>([&] { source->read(i); }),
                HasSubstr(fmt::format("row {}' has no image", i + 1)));
  }
}

TEST_F(ImageTables, WithPathsAreRows) {
  const ImageSample sample = open_images(path("paths.parquet"))->read(0);
  EXPECT_EQ(sample.name, path("a-0.parquet"));
  EXPECT_TRUE(sample.content.starts_with("PAR1"));
}

TEST_F(ImageTables, HaveAFingerprint) {
  EXPECT_EQ(open_images(path("a-0.parquet"))->fingerprint(),
            open_images(path("a-0.parquet"))->fingerprint());
  EXPECT_NE(open_images(path("a-0.parquet"))->fingerprint(),
            open_images(path("a-*.parquet"))->fingerprint());
}

}  // namespace
}  // namespace colossal::data
