#include "colossal/io/gguf.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>

#include "colossal/base/error.h"
#include "colossal/base/random.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using testing::HasSubstr;

// Returns numbers of [-1, 1), some larger ones, and a block of zeros.
std::vector<float> gguf_numbers(int64_t count) {
  std::vector<float> numbers;
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    const uint64_t hash = (i * 2654435761U + 12345) % (uint64_t{1} << 32);
    float number = static_cast<float>(static_cast<double>(hash) / 2147483648.0 - 1);
    if (i % 97 == 0) number *= 8;
    numbers.push_back(i >= 64 && i < 96 ? 0.0F : number);
  }
  return numbers;
}

// FNV-1a.
uint64_t hash_of(const std::vector<std::byte>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

uint64_t hash_of(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return hash_of(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

std::vector<std::byte> blocks_of(GgufType type, const std::vector<float>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<std::byte> blocks(
      static_cast<size_t>(count / elements_per_block(type) * bytes_per_block(type)));
  write_blocks(type, numbers, blocks);
  return blocks;
}

std::vector<float> numbers_of(GgufType type, const std::vector<std::byte>& blocks) {
  std::vector<float> numbers(blocks.size() / static_cast<size_t>(bytes_per_block(type)) *
                             static_cast<size_t>(elements_per_block(type)));
  read_blocks(type, blocks, numbers);
  return numbers;
}

// The Python package gguf 0.19.0 gave these hashes, of its bytes and of the numbers they stand for.
TEST(GgufBlocks, AreByteForByteThoseOfThePackage) {
  struct Expected {
    GgufType type;
    uint64_t blocks, numbers;
  };
  const std::vector<float> numbers = gguf_numbers(1024);
  for (const auto& [type, of_blocks, of_numbers] :
       {Expected{GgufType::f16, 0xed5c9a29c66852ce, 0xbeaa6625b6531134},
        {GgufType::bf16, 0x81ee2020963b6503, 0xf48418ed7fa058cb},
        {GgufType::q8_0, 0xe6e92e460530ad58, 0xbcc61189e2a72d59},
        {GgufType::q4_0, 0x750c5d06fa86c337, 0x7dc08fc386d3e930}}) {
    SCOPED_TRACE(gguf_type_name(type));
    const std::vector<std::byte> blocks = blocks_of(type, numbers);
    EXPECT_EQ(hash_of(blocks), of_blocks);
    EXPECT_EQ(hash_of(numbers_of(type, blocks)), of_numbers);
  }
}

// Returns three blocks with bytes in a pattern without repetition. half_places: offsets of scales
// in fp16, which get finite values.
std::vector<std::byte> some_blocks(GgufType type, const std::vector<size_t>& half_places) {
  const auto size = static_cast<size_t>(bytes_per_block(type));
  std::vector<std::byte> blocks(3 * size);
  for (size_t k = 0; k < blocks.size(); ++k)
    blocks[k] = std::byte(((k * 73 + 11) ^ (k >> 3)) & 255);
  for (size_t block = 0; block < 3; ++block) {
    for (size_t i = 0; i < half_places.size(); ++i) {
      const auto half =
          static_cast<_Float16>(i == 0 ? 0.01 * static_cast<double>(block + 1) : 0.02);
      std::memcpy(blocks.data() + block * size + half_places[i], &half, sizeof half);
    }
  }
  return blocks;
}

TEST(GgufBlocks, OfSuperblocksAreReadAsByThePackage) {
  EXPECT_EQ(hash_of(numbers_of(GgufType::q4_k, some_blocks(GgufType::q4_k, {0, 2}))),
            0x7994d22d95772704);
  EXPECT_EQ(hash_of(numbers_of(GgufType::q6_k, some_blocks(GgufType::q6_k, {208}))),
            0xa66c2bb29ecc1efa);
}

double relative_error(GgufType type, const std::vector<float>& numbers) {
  const std::vector<float> found = numbers_of(type, blocks_of(type, numbers));
  double error = 0, norm = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - static_cast<double>(numbers[i]), 2);
    norm += std::pow(static_cast<double>(numbers[i]), 2);
  }
  return std::sqrt(error / norm);
}

TEST(GgufBlocks, LoseAsMuchAsTheirBitsSay) {
  std::vector<float> numbers;
  for (uint64_t i = 0; i < 4096; ++i) {
    numbers.push_back(static_cast<float>(0.02 * random_normal({5, 0}, i, 0)));
  }
  EXPECT_EQ(relative_error(GgufType::f32, numbers), 0);
  EXPECT_LT(relative_error(GgufType::f16, numbers), 3e-4);
  EXPECT_LT(relative_error(GgufType::bf16, numbers), 2e-3);
  EXPECT_LT(relative_error(GgufType::q8_0, numbers), 0.006);
  EXPECT_LT(relative_error(GgufType::q6_k, numbers), 0.02);
  EXPECT_LT(relative_error(GgufType::q4_k, numbers), 0.075);
  EXPECT_LT(relative_error(GgufType::q4_0, numbers), 0.1);
}

TEST(GgufBlocks, KeepZerosAndConstants) {
  for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k"}) {
    SCOPED_TRACE(name);
    const GgufType type = *find_gguf_type(name);
    EXPECT_EQ(numbers_of(type, blocks_of(type, std::vector<float>(256, 0))),
              std::vector<float>(256, 0));
    for (const float number : numbers_of(type, blocks_of(type, std::vector<float>(256, -0.5F)))) {
      EXPECT_NEAR(number, -0.5, 0.005);
    }
  }
}

class GgufFile : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "model.gguf"; }

  void write(std::string_view bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  // Returns a valid file with two tensors.
  static std::string valid() {
    const GgufPlan plan =
        plan_gguf({{"general.architecture", GgufValue::of("llama")},
                   {"llama.block_count", GgufValue::of(uint32_t{2})},
                   {"llama.epsilon", GgufValue::of(1e-5F)},
                   {"flag", GgufValue::of(true)},
                   {"tokens", GgufValue::of(std::vector<std::string>{"a", "", "\xff"})},
                   {"scores", GgufValue::of(std::vector<float>{0.5F, -1})},
                   {"types", GgufValue::of(std::vector<int32_t>{1, 3})}},
                  {{.name = "a", .type = GgufType::q8_0, .shape = {2, 64}},
                   {.name = "b", .type = GgufType::f32, .shape = {5}}});
    std::string bytes = plan.header;
    bytes.resize(static_cast<size_t>(plan.file_bytes));
    const std::vector<float> numbers = gguf_numbers(128);
    const std::vector<std::byte> blocks = blocks_of(GgufType::q8_0, numbers);
    std::memcpy(bytes.data() + plan.position(plan.tensors[0]), blocks.data(), blocks.size());
    std::memcpy(bytes.data() + plan.position(plan.tensors[1]), numbers.data(), 5 * sizeof(float));
    return bytes;
  }

  std::string refusal() const {
    try {
      const GgufReader reader(path());
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::string refusal_of(const std::string& bytes) const {
    write(bytes);
    return refusal();
  }

  const colossal::test::TemporaryDirectory folder_;
};

TEST_F(GgufFile, IsReadAsItWasWritten) {
  write(valid());
  const GgufReader reader(path());
  EXPECT_EQ(reader.text("general.architecture"), "llama");
  EXPECT_EQ(reader.integer("llama.block_count"), 2);
  EXPECT_EQ(reader.number("llama.epsilon"), static_cast<double>(1e-5F));
  EXPECT_EQ(reader.flag("flag"), true);
  EXPECT_EQ(reader.texts("tokens"), (std::vector<std::string>{"a", "", "\xff"}));
  EXPECT_EQ(reader.numbers("scores"), (std::vector<double>{0.5, -1}));
  EXPECT_EQ(reader.numbers("types"), (std::vector<double>{1, 3}));
  EXPECT_EQ(reader.integer("none"), std::nullopt);
  EXPECT_THROW(reader.integer("llama.epsilon"), IoError);
  EXPECT_THROW(reader.text("tokens"), IoError);
  const GgufTensor& a = *reader.find("a");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 64}));
  std::vector<float> numbers(64);
  reader.read(a, 64, numbers);
  const std::vector<float> all =
      numbers_of(GgufType::q8_0, blocks_of(GgufType::q8_0, gguf_numbers(128)));
  EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), all.begin() + 64));
  std::vector<float> plain(5);
  reader.read(*reader.find("b"), 0, plain);
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), gguf_numbers(5).begin()));
  EXPECT_EQ(reader.find("c"), nullptr);
}

template <typename Number>
std::string with(std::string bytes, size_t place, Number number) {
  std::memcpy(bytes.data() + place, &number, sizeof number);
  return bytes;
}

size_t place_of(const std::string& bytes, const std::string& text) {
  return bytes.find(text);
}

TEST_F(GgufFile, IsRefusedWhereItSaysWhatCannotBe) {
  const std::string good = valid();
  ASSERT_EQ(refusal_of(good), "accepted");
  EXPECT_THAT(refusal_of(""), HasSubstr("the magic number"));
  EXPECT_THAT(refusal_of("GGML" + good.substr(4)), HasSubstr("begin with \"GGUF\""));
  EXPECT_THAT(refusal_of(with(good, 4, uint32_t{1})), HasSubstr("version 1"));
  EXPECT_THAT(refusal_of(with(good, 4, uint32_t{3} << 24)), HasSubstr("big-endian"));
  EXPECT_THAT(refusal_of(with(good, 8, uint64_t{1} << 60)), HasSubstr("tensors"));
  EXPECT_THAT(refusal_of(with(good, 16, ~uint64_t{0})), HasSubstr("fields"));
  EXPECT_THAT(refusal_of(with(good, 24, ~uint64_t{0})), HasSubstr("a field's name"));
  // Texts and an array that are longer than the file.
  const size_t llama = place_of(good, "general.architecture") + 20 + 4;
  EXPECT_THAT(refusal_of(with(good, llama, uint64_t{1} << 63)), HasSubstr("a text"));
  const size_t scores = place_of(good, "scores") + 6 + 4;
  EXPECT_THAT(refusal_of(with(good, scores + 4, uint64_t{1} << 62)), HasSubstr("elements"));
  EXPECT_THAT(refusal_of(with(good, scores, uint32_t{9})), HasSubstr("array of arrays"));
  EXPECT_THAT(refusal_of(with(good, scores, uint32_t{77})), HasSubstr("is 77"));
  // Damaged tensors.
  const size_t a = good.find(std::string("\1\0\0\0\0\0\0\0a\2\0\0\0", 13)) + 9;
  ASSERT_LT(a, good.size());
  EXPECT_THAT(refusal_of(with(good, a, uint32_t{0})), HasSubstr("0 dims"));
  EXPECT_THAT(refusal_of(with(good, a, uint32_t{5})), HasSubstr("5 dims"));
  EXPECT_THAT(refusal_of(with(good, a + 4, uint64_t{63})), HasSubstr("no whole blocks"));
  EXPECT_THAT(refusal_of(with(good, a + 4, uint64_t{1} << 63)), HasSubstr("a dim of"));
  EXPECT_THAT(refusal_of(with(good, a + 12, uint64_t{1} << 58)), HasSubstr("larger than any"));
  EXPECT_THAT(refusal_of(with(good, a + 12, uint64_t{1})), HasSubstr("not at"));
  EXPECT_THAT(refusal_of(with(good, a + 20, uint32_t{16})), HasSubstr("q4_k"));
  EXPECT_THAT(refusal_of(with(good, a + 24, uint64_t{32})), HasSubstr("begins at"));
  EXPECT_THAT(refusal_of(with(good, a + 24, ~uint64_t{0})), HasSubstr("begins at"));
  std::string twice = good;
  twice[place_of(good, std::string("\1\0\0\0\0\0\0\0b", 9)) + 8] = 'a';
  EXPECT_THAT(refusal_of(twice), HasSubstr("\"a\" twice"));
  twice = good;
  twice.replace(place_of(good, "scores"), 6, "tokens");
  EXPECT_THAT(refusal_of(twice), HasSubstr("\"tokens\" twice"));
  EXPECT_THAT(refusal_of(good.substr(0, good.size() - 32)), HasSubstr("beyond the end"));
}

TEST_F(GgufFile, ItsAlignmentIsAPowerOfTwo) {
  for (const uint32_t alignment : {0U, 3U, 1U << 31, 64U}) {
    const GgufPlan plan = plan_gguf({{"general.alignment", GgufValue::of(alignment)}}, {});
    write(plan.header);
    EXPECT_THAT(refusal(), HasSubstr(alignment == 64 ? "accepted" : "power of 2"));
  }
}

// Cuts the file everywhere, and changes thousands of bytes: each file must be read or refused.
TEST_F(GgufFile, DamagedIsRefusedOrRead) {
  const std::string good = valid();
  for (size_t size = 0; size < good.size(); size += 7) refusal_of(good.substr(0, size));
  int refused = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    std::string bad = good;
    for (uint64_t change = 0; change < 1 + i % 3; ++change) {
      const auto place = static_cast<size_t>(random_uniform({1, 0}, i, change) *
                                             static_cast<double>(bad.size() - 300));
      bad[place] = static_cast<char>(256 * random_uniform({2, 0}, i, change));
    }
    refused += refusal_of(bad) == "accepted" ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace colossal::io
