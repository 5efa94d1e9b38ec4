#include "colossal/io/safetensors.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/io/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using ::testing::HasSubstr;

std::string read_tensor(const SafetensorsReader& reader, const TensorEntry& entry) {
  std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
  reader.read(entry, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

const std::vector<TensorSpec> kTensors = {
    {"flags", ScalarType::boolean, {3}},
    {"wte.weight", ScalarType::bf16, {5, 7}},
    {"master", ScalarType::f32, {2, 3, 4}},
    {"scalar", ScalarType::f64, {}},
    {"empty", ScalarType::f32, {0, 4}},
    {"ids \"é\"\n", ScalarType::i64, {1, 1, 1, 1, 1, 1, 1, 2}},
    {"eighth", ScalarType::f8_e4m3, {9, 1}},
};

class SafetensorsTest : public ::testing::Test {
 protected:
  colossal::test::TemporaryDirectory folder_;
};

TEST_F(SafetensorsTest, ReadsWhatItPlans) {
  test::write_safetensors(folder_ / "a.safetensors", kTensors, {{"format", "pt"}, {"k", "v"}});
  const SafetensorsReader reader(folder_ / "a.safetensors");
  EXPECT_EQ(reader.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"k", "v"}}));
  ASSERT_EQ(reader.entries().size(), kTensors.size());
  for (const TensorSpec& spec : kTensors) {
    const TensorEntry* entry = reader.find(spec.name);
    ASSERT_NE(entry, nullptr) << spec.name;
    EXPECT_EQ(entry->type, spec.type);
    EXPECT_EQ(entry->shape, spec.shape);
    EXPECT_EQ(read_tensor(reader, *entry), test::tensor_contents(*entry)) << spec.name;
  }
  EXPECT_EQ(reader.find("wte"), nullptr);
}

TEST_F(SafetensorsTest, DataIsAlignedAndTensorsToTheirElements) {
  for (size_t name_length = 1; name_length < 70; ++name_length) {
    const auto plan = plan_safetensors({{"byte", ScalarType::u8, {3}},
                                        {std::string(name_length, 'n'), ScalarType::f64, {5}},
                                        {"half", ScalarType::f16, {1}}},
                                       {});
    EXPECT_EQ(plan.header.size() % 64, 0U);
    EXPECT_EQ(plan.file_bytes, std::ssize(plan.header) + 45);
    for (const TensorEntry& entry : plan.entries) {
      EXPECT_EQ(plan.position(entry) % scalar_type_bytes(entry.type), 0) << entry.name;
    }
  }
}

TEST_F(SafetensorsTest, EachRankReadsItsSlice) {
  test::write_safetensors(folder_ / "a.safetensors", {{"w", ScalarType::i32, {1000}}});
  const SafetensorsReader reader(folder_ / "a.safetensors");
  const TensorEntry& entry = reader.entries().front();
  const std::string whole = test::tensor_contents(entry);
  std::vector<std::string> parts(4, std::string(1000, '\0'));
  {
    std::vector<std::jthread> ranks;
    for (size_t rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([&, rank] {
        reader.read(entry, static_cast<int64_t>(rank) * 1000,
                    std::as_writable_bytes(std::span(parts[rank])));
      });
    }
  }
  EXPECT_EQ(parts[0] + parts[1] + parts[2] + parts[3], whole);
  std::string beyond(5, '\0');
  EXPECT_THROW(reader.read(entry, 3996, std::as_writable_bytes(std::span(beyond))), InternalError);
  EXPECT_THROW(reader.read(entry, -1, {}), InternalError);
}

TEST_F(SafetensorsTest, SeveralRanksWriteOneFile) {
  const auto plan =
      plan_safetensors({{"w", ScalarType::u8, {64}}, {"v", ScalarType::u8, {64}}}, {});
  {
    File file = File::create(folder_ / "a.safetensors");
    file.reserve(plan.file_bytes);
    file.write_at(std::as_bytes(std::span(plan.header)), 0);
  }
  for (int64_t rank = 1; rank >= 0; --rank) {
    File file = File::open_for_writing(folder_ / "a.safetensors");
    for (const TensorEntry& entry : plan.entries) {
      const std::string half = test::tensor_contents(entry).substr(rank * 32, 32);
      file.write_at(std::as_bytes(std::span(half)), plan.position(entry) + rank * 32);
    }
  }
  const SafetensorsReader reader(folder_ / "a.safetensors");
  for (const TensorEntry& entry : reader.entries()) {
    EXPECT_EQ(read_tensor(reader, entry), test::tensor_contents(entry));
  }
}

TEST_F(SafetensorsTest, AFileThatShrinksAfterOpeningIsAnError) {
  test::write_safetensors(folder_ / "a.safetensors", {{"w", ScalarType::u8, {100}}});
  const SafetensorsReader reader(folder_ / "a.safetensors");
  std::filesystem::resize_file(folder_ / "a.safetensors",
                               std::filesystem::file_size(folder_ / "a.safetensors") - 1);
  EXPECT_THAT(test::message_of([&] { read_tensor(reader, reader.entries().front()); }),
              HasSubstr("cut short"));
}

TEST_F(SafetensorsTest, NothingIsPlannedThatWouldNotBeRead) {
  const TensorSpec good{"a", ScalarType::u8, {1}};
  EXPECT_THROW(plan_safetensors({good, good}, {}), InternalError);
  EXPECT_THROW(plan_safetensors({{"__metadata__", ScalarType::u8, {1}}}, {}), InternalError);
  EXPECT_THROW(plan_safetensors({{std::string(1025, 'n'), ScalarType::u8, {1}}}, {}),
               InternalError);
  EXPECT_THROW(plan_safetensors({{"a", ScalarType::u8, {1, 1, 1, 1, 1, 1, 1, 1, 1}}}, {}),
               InternalError);
  EXPECT_THROW(plan_safetensors({{"a", ScalarType::f64, {int64_t{1} << 60, 1}}}, {}),
               InternalError);
  EXPECT_THROW(plan_safetensors({{"a", ScalarType::u8, {-1}}}, {}), InternalError);
}

TEST(ScalarTypeTest, NamesGoBothWays) {
  for (int i = 0; i <= static_cast<int>(ScalarType::boolean); ++i) {
    const auto type = static_cast<ScalarType>(i);
    EXPECT_EQ(find_scalar_type(scalar_type_name(type)), type);
    EXPECT_GE(scalar_type_bytes(type), 1);
  }
  EXPECT_FALSE(find_scalar_type("F4"));
  EXPECT_FALSE(find_scalar_type("f32"));
}

}  // namespace
}  // namespace colossal::io
