#include "colossal/base/toml.h"

#include <gtest/gtest.h>

#include <limits>

#include "colossal/base/error.h"
#include "tests/base/write_file.h"
#include "tests/support/temporary_directory.h"

namespace colossal {
namespace {

using nlohmann::json;
using test::TemporaryDirectory;
using test::write_file;

std::string error_of(const std::filesystem::path& path) {
  try {
    read_toml_file(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Toml, EntriesComeInTheOrderOfTheFileWithTheirLines) {
  const TemporaryDirectory folder;
  const auto entries = read_toml_file(write_file(folder / "run.toml", R"([train]
steps = 100
seed = 7

[data]
train = ["a", "b"]
[empty]
[model.rope]
factor = 8.0
[memory]
split = {host = 0.5}
)"));
  ASSERT_EQ(entries.size(), 6u);
  EXPECT_EQ(entries[0].key, "train.steps");
  EXPECT_EQ(entries[0].value, 100);
  EXPECT_EQ(entries[0].line, 2);
  EXPECT_EQ(entries[1].key, "train.seed");
  EXPECT_EQ(entries[2].value, json({"a", "b"}));
  EXPECT_EQ(entries[3].key, "empty");
  EXPECT_EQ(entries[3].value, json::object());
  EXPECT_EQ(entries[4].key, "model.rope.factor");
  EXPECT_EQ(entries[4].line, 9);
  EXPECT_EQ(entries[5].key, "memory.split");
  EXPECT_EQ(entries[5].value, json({{"host", 0.5}}));
}

TEST(Toml, ASectionMayBeWrittenInline) {
  const TemporaryDirectory folder;
  const auto entries = read_toml_file(write_file(folder / "run.toml", "train = {steps = 3}\n"));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].key, "train.steps");
}

TEST(Toml, ErrorsSayWhere) {
  const TemporaryDirectory folder;
  const auto broken = write_file(folder / "broken.toml", "[train]\nsteps = \n");
  EXPECT_TRUE(error_of(broken).starts_with(broken.string() + ":2:9: not valid TOML: "))
      << error_of(broken);
  const auto twice = write_file(folder / "twice.toml", "[train]\nsteps = 1\nsteps = 2\n");
  EXPECT_TRUE(error_of(twice).starts_with(twice.string() + ":3:")) << error_of(twice);
  const auto date = write_file(folder / "date.toml", "[train]\nsteps = 2020-01-01\n");
  EXPECT_EQ(error_of(date),
            date.string() + ":2:9: a date or time, which no key takes; text needs quotes");
}

TEST(Toml, FilesThatCannotBeReadAreNamed) {
  const TemporaryDirectory folder;
  EXPECT_EQ(error_of("/no/such/run.toml"),
            "/no/such/run.toml: cannot read this configuration file: No such file or directory");
  EXPECT_EQ(error_of(folder.path()),
            folder.path().string() + ": cannot read this configuration file: it is a directory");
}

TEST(Toml, SingleValuesReadAndWriteBack) {
  for (const char* text : {"100", "-1", "0.5", "3e-04", "true", "\"a \\\"b\\\"\"", "[1, 2]", "[]",
                           "{host = 0.5, \"odd key\" = [true]}", "inf", "-inf"}) {
    const auto value = parse_toml_value(text);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(parse_toml_value(to_toml(*value)), value) << text;
  }
  EXPECT_EQ(to_toml(json(0.1)), "0.1");
  EXPECT_EQ(to_toml(json(1.0)), "1.0");
  EXPECT_EQ(to_toml(json(std::numeric_limits<double>::quiet_NaN())), "nan");
  EXPECT_EQ(to_toml(json()), "unset");
}

TEST(Toml, OtherTextIsNoValue) {
  for (const char* text : {"", "word", "1 2", "1\nother = 2", "[1", "2020-01-01"}) {
    EXPECT_FALSE(parse_toml_value(text)) << text;
  }
}

}  // namespace
}  // namespace colossal
