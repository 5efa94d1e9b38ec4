// Quantized tensors with scales, as published models have them.
#include "colossal/checkpoint/stored_tensor.h"

#include <c10/util/BFloat16.h>
#include <gmock/gmock.h>

#include <cstring>
#include <optional>
#include <span>

#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "tests/support/temporary_directory.h"

namespace colossal::checkpoint {
namespace {

using testing::HasSubstr;

struct Given {
  std::string name;
  io::ScalarType type;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

class Folder {
 public:
  explicit Folder(const std::vector<Given>& tensors) {
    std::vector<io::TensorSpec> specs;
    for (const Given& tensor : tensors) specs.push_back({tensor.name, tensor.type, tensor.shape});
    const io::SafetensorsPlan plan = io::plan_safetensors(specs, {});
    io::File file = io::File::create(folder_.path() / "model.safetensors");
    file.write_at(std::as_bytes(std::span(plan.header)), 0);
    for (const io::TensorEntry& entry : plan.entries) {
      for (const Given& tensor : tensors) {
        if (tensor.name != entry.name) continue;
        file.write_at(std::as_bytes(std::span(tensor.bytes)), plan.position(entry));
      }
    }
    directory_.emplace(folder_.path());
  }
  const WeightFolder& operator*() const { return *directory_; }

 private:
  test::TemporaryDirectory folder_;
  std::optional<WeightFolder> directory_;
};

std::vector<uint8_t> bytes_of_floats(const std::vector<float>& numbers) {
  std::vector<uint8_t> bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::vector<float> read(const StoredTensor& tensor, int64_t first, int64_t count) {
  std::vector<c10::BFloat16> numbers(static_cast<size_t>(count));
  tensor.read(first, std::as_writable_bytes(std::span(numbers)));
  return {numbers.begin(), numbers.end()};
}

std::string refusal(const Folder& folder) {
  try {
    find_stored_tensor(*folder, "w");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// In E4M3, 0x38 is 1, 0x40 is 2, and 0xC0 is -2.
TEST(StoredTensor, NumbersOfABlockHaveItsScale) {
  std::vector<uint8_t> numbers(2 * 130, 0x38);
  numbers[129] = 0x40;
  numbers[259] = 0xC0;
  const Folder folder({{"w", io::ScalarType::f8_e4m3, {2, 130}, numbers},
                       {"w_scale_inv", io::ScalarType::f32, {1, 2}, bytes_of_floats({3, 0.5})}});
  const auto tensor = find_stored_tensor(*folder, "w");
  EXPECT_EQ(tensor->shape(), (std::vector<int64_t>{2, 130}));
  EXPECT_EQ(read(*tensor, 126, 6), (std::vector<float>{3, 3, 0.5, 1, 3, 3}));
  EXPECT_EQ(read(*tensor, 258, 2), (std::vector<float>{0.5, -1}));
  EXPECT_EQ(names_of_stored(*folder, "w"), (std::vector<std::string>{"w", "w_scale_inv"}));
}

// Two matrices of one output and 32 inputs: a byte of 0x2A holds -1 and then 1.
TEST(StoredTensor, MicroscaledMatricesAreTransposed) {
  std::vector<uint8_t> blocks(32, 0x2A);
  blocks[17] = 0x70;  // 0 and then 6
  const Folder folder({{"w_blocks", io::ScalarType::u8, {2, 1, 1, 16}, blocks},
                       {"w_scales", io::ScalarType::u8, {2, 1, 1}, {127, 128}}});
  const auto tensor = find_stored_tensor(*folder, "w");
  EXPECT_EQ(tensor->shape(), (std::vector<int64_t>{2, 32, 1}));
  EXPECT_EQ(read(*tensor, 30, 6), (std::vector<float>{-1, 1, -2, 2, 0, 12}));
  EXPECT_EQ(read(*tensor, 1, 1), (std::vector<float>{1}));
}

TEST(StoredTensor, RefusesScalesThatAreNotOfTheWeights) {
  const Given numbers{"w", io::ScalarType::f8_e4m3, {2, 130}, std::vector<uint8_t>(260, 0)};
  EXPECT_THAT(refusal(Folder(
                  {numbers, {"w_scale_inv", io::ScalarType::f32, {1, 1}, bytes_of_floats({1})}})),
              HasSubstr("\"w_scale_inv\" is F32 [1, 1]; the weights beside it need [1, 2]"));
  EXPECT_THAT(refusal(Folder({numbers})), HasSubstr("F8_E4M3"));
  EXPECT_EQ(find_stored_tensor(*Folder({numbers}), "v"), nullptr);
}

}  // namespace
}  // namespace colossal::checkpoint
