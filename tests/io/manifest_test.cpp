#include "colossal/io/manifest.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/io/files.h"

namespace colossal::io {
namespace {

using test::message_of;
using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.files = {{"config.json", 2, {{0, 2, 17}}},
                    {"empty", 0, {}},
                    {"training_state/a.safetensors", 96, {{0, 64, ~uint64_t{0}}, {64, 32, 1}}}};
  return manifest;
}

TEST(ManifestTest, ReadsWhatItWrites) {
  EXPECT_EQ(Manifest::parse(example().to_json(), "m"), example());
  EXPECT_EQ(Manifest::parse(Manifest().to_json(), "m"), Manifest());
}

TEST(ManifestTest, AnyFlippedBitIsNoticed) {
  const std::string good = example().to_json();
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(Manifest::parse(bad, "m"), IoError) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST(ManifestTest, TheRanksPartsAddUp) {
  Manifest first, second;
  first.files = {{"w", 10, {{0, 10, 1}}}, {"first", 1, {{0, 1, 2}}}};
  second.files = {{"w", 30, {{20, 10, 3}, {10, 10, 4}}}};
  second.add(first);
  second.sort();
  EXPECT_EQ(second.coverage_error(), "");
  ASSERT_EQ(second.files.size(), 2U);
  EXPECT_EQ(second.files[1], (ManifestFile{"w", 30, {{0, 10, 1}, {10, 10, 4}, {20, 10, 3}}}));
}

TEST(ManifestTest, SaysWhichBytesAreMissing) {
  const auto coverage_error = [](std::vector<ManifestRange> ranges, int64_t size) {
    Manifest manifest;
    manifest.files = {{"w", size, std::move(ranges)}};
    return manifest.coverage_error();
  };
  EXPECT_EQ(coverage_error({{0, 4, 0}, {6, 2, 0}}, 8), "bytes 4 to 6 of w were written by no rank");
  EXPECT_EQ(coverage_error({{0, 4, 0}, {2, 6, 0}}, 8), "bytes 2 to 4 of w were written twice");
  EXPECT_EQ(coverage_error({{0, 4, 0}}, 8), "bytes 4 to 8 of w were written by no rank");
  EXPECT_EQ(coverage_error({{0, 9, 0}}, 8), "9 bytes were written at 0 into w of 8 bytes");
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  EXPECT_NE(coverage_error({{0, kLargest, 0}, {kLargest, kLargest, 0}}, kLargest), "");
}

TEST(ManifestTest, RefusesOtherDocuments) {
  for (const char* text : {"", "[]", "{}", "3", R"({"format": "colossal-manifest-1"})"}) {
    EXPECT_THROW(Manifest::parse(text, "m"), IoError) << text;
  }
  EXPECT_THAT(message_of([] { Manifest::parse(R"({"format": "other", "checksum": ""})", "m"); }),
              HasSubstr("m: is of format \"other\", this program reads"));
}

TEST(ManifestTest, NamesStayInTheFolder) {
  for (const char* name : {"a", "a/b.json", "training_state/model-1.safetensors"}) {
    EXPECT_TRUE(is_plain_relative_name(name)) << name;
  }
  for (const char* name :
       {"", "/", "/a", "a/", "a//b", "..", "a/../b", ".", ".hidden", "a/.b", "a b", "a\\b", "é"}) {
    EXPECT_FALSE(is_plain_relative_name(name)) << name;
    Manifest manifest;
    manifest.files = {{name, 0, {}}};
    EXPECT_THAT(message_of([&] { Manifest::parse(manifest.to_json(), "m"); }),
                HasSubstr("names the file"));
  }
}

}  // namespace
}  // namespace colossal::io
