// Compares with the Python package safetensors: each side reads what the other writes, and accepts
// nothing that the other refuses.
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "tests/io/files.h"
#include "tests/support/run_process.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using colossal::test::run_process;

std::string python(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {COLOSSAL_TEST_SOURCE_DIR "/.venv/bin/python", "-c", program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto result = run_process(command);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Returns lines "name dtype shape bytes", sorted by name.
std::string summary(const SafetensorsReader& reader) {
  std::map<std::string, std::string> lines;
  for (const TensorEntry& entry : reader.entries()) {
    std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
    reader.read(entry, 0, std::as_writable_bytes(std::span(bytes)));
    lines[entry.name] = fmt::format("{} {} [{}] {}\n", entry.name, scalar_type_name(entry.type),
                                    fmt::join(entry.shape, ", "), hexadecimal(bytes));
  }
  std::string text;
  for (const auto& [name, line] : lines) text += line;
  return text;
}

const std::vector<TensorSpec> kTensorsForPython = {
    {"wte.weight", ScalarType::bf16, {5, 7}},
    {"master", ScalarType::f32, {2, 3, 4}},
    {"scalar", ScalarType::f64, {}},
    {"empty", ScalarType::f32, {0, 4}},
    {"ids", ScalarType::i64, {3}},
    {"half", ScalarType::f16, {9}},
    {"bytes", ScalarType::u8, {11}},
    {"flags", ScalarType::boolean, {2}},
    {"float8", ScalarType::f8_e4m3, {3}},
    {"complex", ScalarType::c64, {2}},
};

constexpr const char* kSummarise = R"(
import sys, safetensors
with open(sys.argv[1], 'rb') as file:
    tensors = safetensors.deserialize(file.read())
for name, t in sorted(tensors):
    print(name, t['dtype'], t['shape'], bytes(t['data']).hex())
)";

TEST(SafetensorsPythonTest, ReadsWhatWeWrite) {
  const colossal::test::TemporaryDirectory folder;
  const auto path = folder / "ours.safetensors";
  test::write_safetensors(path, kTensorsForPython, {{"format", "pt"}});
  EXPECT_EQ(python(kSummarise, {path.string()}), summary(SafetensorsReader(path)));
}

TEST(SafetensorsPythonTest, WeReadWhatItWrites) {
  const colossal::test::TemporaryDirectory folder;
  const auto path = folder / "theirs.safetensors";
  const std::string theirs = python(R"(
import ctypes, sys, safetensors
spec = {'a.weight': ('float32', [2, 3], 24), 'b': ('bfloat16', [5], 10), 'c': ('bool', [1], 1),
        'empty': ('int64', [0], 0), 'scalar': ('float64', [], 8), 'q': ('float8_e5m2', [3], 3)}
buffers = {n: ctypes.create_string_buffer(bytes(range(1, size + 1))) for n, (_, _, size) in spec.items()}
data = safetensors.serialize(
    {n: safetensors.TensorSpec(dtype=dtype, shape=shape, data_len=size,
                               data_ptr=ctypes.addressof(buffers[n]))
     for n, (dtype, shape, size) in spec.items()}, metadata={'format': 'pt', 'é': '\n'})
open(sys.argv[1], 'wb').write(data)
)" + std::string(kSummarise),
                                    {path.string()});
  const SafetensorsReader reader(path);
  EXPECT_EQ(summary(reader), theirs);
  EXPECT_EQ(reader.entries().size(), 6U);
  EXPECT_EQ(reader.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"é", "\n"}}));
}

TEST(SafetensorsPythonTest, WeAcceptNothingThatItRefuses) {
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  test::write_safetensors(folder / "good", kTensorsForPython, {{"format", "pt"}});
  const std::string good = read_file(folder / "good");
  const auto header_bytes = good.find(' ');
  std::mt19937 random(7);
  std::string ours;
  for (int i = 0; i < 3000; ++i) {
    // Changes mostly digits and punctuation of the header, so that some changes leave valid JSON.
    std::string file = good;
    const auto place = 8 + random() % (header_bytes - 8);
    file[place] = "0123456789[]{},:\" abF"[random() % 21];
    const auto path = folder / fmt::format("{:04}", i);
    test::write_text(path, file);
    const bool accepted =
        test::message_of([&] { const SafetensorsReader reader(path); }) == "nothing was thrown";
    if (accepted) ours += fmt::format("{:04}\n", i);
  }
  const std::string theirs = python(R"(
import sys, os, safetensors
for name in sorted(os.listdir(sys.argv[1])):
    try:
        safetensors.deserialize(open(os.path.join(sys.argv[1], name), 'rb').read())
        print(name)
    except safetensors.SafetensorError:
        pass
)",
                                    {folder.path().string()});
  ASSERT_GT(ours.size(), 100U);
  std::istringstream lines(ours);
  for (std::string name; std::getline(lines, name);) {
    EXPECT_NE(theirs.find(name), std::string::npos) << name << " is refused by Python";
  }
}

}  // namespace
}  // namespace colossal::io
