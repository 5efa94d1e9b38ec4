// Our pixels equal those of Pillow and transformers, which image_oracle.py writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/image/decode.h"
#include "colossal/image/processor.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"
#include "tests/image/stored_image.h"
#include "tests/support/mutations.h"
#include "tests/support/temporary_directory.h"

namespace colossal::image {
namespace {

namespace fs = std::filesystem;

class ImageOracle : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryDirectory;
    const std::string command =
        fmt::format("'{0}/.venv/bin/python' '{0}/tests/image/image_oracle.py' '{1}'",
                    COLOSSAL_TEST_SOURCE_DIR, folder_->path().string());
    status_ = std::system(command.c_str());
  }
  static void TearDownTestSuite() { delete folder_; }
  void SetUp() override { ASSERT_EQ(status_, 0) << "the Python side failed"; }

  static fs::path path(const std::string& name) { return folder_->path() / name; }

 private:
  static test::TemporaryDirectory* folder_;
  static int status_;
};

test::TemporaryDirectory* ImageOracle::folder_ = nullptr;
int ImageOracle::status_ = 0;

TEST_F(ImageOracle, DecodesAsPillow) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(path("decode"))) {
    const std::string name = entry.path().string();
    if (name.ends_with(".rgb")) continue;
    ++files;
    const std::string content = io::read_file(name);
    const Image expected = read_image(name + ".rgb");
    EXPECT_EQ(difference(decode_image(content, name), expected), "equal") << name;
    EXPECT_EQ(image_size(content, name), expected.size()) << name;
  }
  EXPECT_GT(files, 250);
}

// The files of the oracle that are images, of all kinds.
std::vector<std::string> contents_in(const fs::path& folder) {
  std::vector<std::string> contents;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".rgb") contents.push_back(io::read_file(entry.path()));
  }
  std::ranges::sort(contents);  // by kind
  return contents;
}

// Returns the image; nullopt if the content is refused.
std::optional<Image> decode_or_refuse(const std::string& content) {
  try {
    Image image = decode_image(content, "name.png");
    EXPECT_EQ(image_size(content, "name.png"), image.size());
    return image;
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("name.png"), std::string::npos) << error.what();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("name.png"), std::string::npos) << error.what();
  }
  return std::nullopt;
}

TEST_F(ImageOracle, IncompleteFilesAreRefused) {
  int refused = 0, complete = 0;
  for (const std::string& content : contents_in(path("decode"))) {
    const Image whole = decode_image(content, "whole");
    const size_t step = 1 + content.size() / 40;
    for (size_t size = 0; size < content.size(); size += step) {
      // What is missing may be metadata, which come last, and so change how the image is turned.
      const auto image = decode_or_refuse(content.substr(0, size));
      ++(image ? complete : refused);
      if (image) {
        EXPECT_EQ(image->pixels.size(), whole.pixels.size()) << size << " of " << content.size();
      }
    }
  }
  EXPECT_GT(refused, 20 * complete);
}

TEST_F(ImageOracle, DamagedFilesAreRefusedOrDecoded) {
  int refused = 0, decoded = 0;
  test::for_mutations(contents_in(path("decode")), std::string("\0\xff\x80", 3),
                      [&](const std::string& content, test::Mutator&) {
                        ++(decode_or_refuse(content) ? decoded : refused);
                      });
  EXPECT_GT(refused, 0);
  EXPECT_GT(decoded, 0);
}

TEST_F(ImageOracle, ResizesAsPillow) {
  const auto cases = io::read_json(path("resize/cases.json"));
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& fields = cases[i];
    const Image source =
        read_image(path(fmt::format("resize/{}.rgb", fields["source"].get<int>())));
    std::optional<SourceBox> box;
    if (const auto& given = fields["box"]; !given.is_null()) {
      box = SourceBox{given[0], given[1], given[2], given[3]};
    }
    const Image result = resize(source, {fields["size"][0], fields["size"][1]},
                                static_cast<Filter>(fields["filter"].get<int>()), box);
    EXPECT_EQ(difference(result, read_image(path(fmt::format("resize/case_{}.rgb", i)))), "equal")
        << fields.dump() << " of " << source.height << "x" << source.width;
  }
  EXPECT_GT(cases.size(), 900u);
}

// "equal", or where the outputs differ.
std::string difference(const Processor::Output& ours, const Stored& theirs) {
  if (ours.size != theirs.size) {
    return fmt::format("{}x{}, not {}x{}", ours.size.height, ours.size.width, theirs.size.height,
                       theirs.size.width);
  }
  std::vector<float> expected(theirs.bytes.size() / sizeof(float));
  std::memcpy(expected.data(), theirs.bytes.data(), theirs.bytes.size());
  if (ours.pixels.size() != expected.size()) return "another number of channels";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (ours.pixels[i] != expected[i]) {
      return fmt::format("value {}: {}, not {}", i, ours.pixels[i], expected[i]);
    }
  }
  return "equal";
}

TEST_F(ImageOracle, ProcessesAsTransformers) {
  const auto cases = io::read_json(path("process/cases.json"));
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& fields = cases[i]["fields"];
    const auto from_fields = Processor::from_json(fields, "fields");
    // As transformers saves it; and as this writes it.
    const auto from_folder = Processor::from_folder(path(fmt::format("process/saved_{}", i)));
    const auto again = Processor::from_json(io::parse_json(from_fields.to_json(), "ours"), "ours");
    for (int source = 0; source < cases[i]["sources"].get<int>(); ++source) {
      const Image image = read_image(path(fmt::format("process/source_{}.rgb", source)));
      const Stored expected = read_stored(path(fmt::format("process/case_{}_{}.float", i, source)));
      for (const Processor* processor : {&from_fields, &from_folder, &again}) {
        EXPECT_EQ(difference(processor->process(image), expected), "equal")
            << fields.dump() << " source " << source;
      }
    }
  }
  EXPECT_GT(cases.size(), 90u);
}

}  // namespace
}  // namespace colossal::image
