// Reads thousands of damaged files. Each may only cause an IoError or ConfigError, and allocate no
// more memory than its own size explains.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <random>

#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/gguf.h"
#include "colossal/io/tensor_directory.h"
#include "tests/io/files.h"
#include "tests/support/mutations.h"
#include "tests/support/temporary_directory.h"

namespace {

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> peak_bytes{0};

void* allocate(size_t size) noexcept {
  void* memory = std::malloc(size > 0 ? size : 1);
  if (!memory) return nullptr;
  const size_t now = live_bytes += malloc_usable_size(memory);
  size_t peak = peak_bytes;
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return memory;
}

void* allocate_or_throw(size_t size) {
  void* memory = allocate(size);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void release(void* memory) noexcept {
  if (memory) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) {
  return allocate_or_throw(size);
}
void* operator new[](size_t size) {
  return allocate_or_throw(size);
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return allocate(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return allocate(size);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  release(memory);
}

namespace colossal::io {
namespace {

// Returns the peak of the memory that `call` allocates, whether or not it frees it.
template <typename Call>
size_t peak_of(Call call) {
  const size_t before = live_bytes;
  peak_bytes = before;
  call();
  return peak_bytes - before;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  // Makes one to four changes: flips bits, sets bytes, cuts, doubles or moves runs, sets absurd
  // numbers.
  std::string operator()(std::string text) {
    for (uint32_t i = 0, changes = 1 + pick(4); i < changes && !text.empty(); ++i) change(text);
    return text;
  }

 private:
  uint32_t pick(size_t limit) { return random_() % static_cast<uint32_t>(limit); }

  void change(std::string& text) {
    const size_t at = pick(text.size());
    const size_t length = std::min<size_t>(1 + pick(40), text.size() - at);
    switch (pick(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << pick(8)));
        break;
      case 1:
        text[at] = static_cast<char>(pick(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(pick(text.size()), length));
        break;
      case 4:
        text.resize(at);
        break;
      case 5:
        text[at] = "0123456789[]{},:\"-.eE"[pick(21)];
        break;
      case 6:
        replace_number(text, at);
        break;
    }
  }

  void replace_number(std::string& text, size_t at) {
    static const char* const kNumbers[] = {
        "-1",  "0",   "1152921504606846976", "9223372036854775807",
        "1e9", "255", "18446744073709551615"};
    const size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin, kNumbers[pick(std::size(kNumbers))]);
  }

  std::mt19937 random_;
};

// Whether a damaged file is accepted. Exceptions other than these two end the test.
template <typename Call>
bool is_accepted(Call call) {
  try {
    call();
    return true;
  } catch (const IoError&) {
    return false;
  } catch (const ConfigError&) {
    return false;
  }
}

// An entry takes at least 50 bytes of a header. In memory, it takes 120 bytes and its share of a
// growing vector. A message has about three copies of an excerpt.
size_t allowed_memory(size_t file_bytes) {
  return 12 * file_bytes + 16384;
}

TEST(MutationTest, SafetensorsFiles) {
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  const auto path = folder / "model.safetensors";
  test::write_safetensors(path,
                          {{"wte.weight", ScalarType::bf16, {5, 7}},
                           {"h.0.bias", ScalarType::f32, {3}},
                           {"h.1.bias", ScalarType::f32, {3}},
                           {"empty", ScalarType::f32, {0, 4}},
                           {"flag", ScalarType::boolean, {}}},
                          {{"format", "pt"}});
  const std::string good = read_file(path);
  Mutator mutate(1);
  int accepted = 0;
  for (int i = 0; i < 8000; ++i) {
    const std::string bad = mutate(good);
    test::write_text(path, bad);
    const size_t peak = peak_of([&] {
      accepted += is_accepted([&] {
        const TensorDirectory directory(folder.path());
        for (const auto& name : directory.names()) {
          const auto [file, entry] = directory.find(name);
          std::string bytes(static_cast<size_t>(entry->bytes()), '\0');
          file->read(*entry, 0, std::as_writable_bytes(std::span(bytes)));
        }
      });
    });
    ASSERT_LE(peak, allowed_memory(bad.size())) << bad;
  }
  EXPECT_GT(accepted, 100);  // changes of data, names or padding
  EXPECT_LT(accepted, 4000);
}

// The same, with the changes of mutations.h and for as long as it says.
TEST(MutationTest, SafetensorsFilesForATime) {
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  const auto path = folder / "model.safetensors";
  test::write_safetensors(path,
                          {{"wte.weight", ScalarType::bf16, {5, 7}},
                           {"h.0.bias", ScalarType::f32, {3}},
                           {"empty", ScalarType::f32, {0, 4}}},
                          {{"format", "pt"}});
  colossal::test::for_mutations(
      {read_file(path)}, "\"\\[]{}:,0189-.eE", [&](const std::string& bytes, auto&) {
        test::write_text(path, bytes);
        is_accepted([&] { const TensorDirectory directory(folder.path()); });
      });
}

TEST(MutationTest, GgufFilesForATime) {
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  const auto path = folder / "model.gguf";
  const GgufPlan plan =
      plan_gguf({{"general.architecture", GgufValue::of("llama")},
                 {"llama.block_count", GgufValue::of(uint32_t{2})},
                 {"llama.rope.freq_base", GgufValue::of(1e4F)},
                 {"flag", GgufValue::of(true)},
                 {"tokenizer.ggml.tokens", GgufValue::of(std::vector<std::string>{"a", "bc", ""})},
                 {"tokenizer.ggml.scores", GgufValue::of(std::vector<float>{0, -1, -2.5F})}},
                {{.name = "token_embd.weight", .type = GgufType::f32, .shape = {3, 4}},
                 {.name = "blk.0.w", .type = GgufType::q8_0, .shape = {2, 32}}});
  std::string good = plan.header;
  good.resize(static_cast<size_t>(plan.file_bytes), '\1');
  colossal::test::for_mutations(
      {good}, std::string("\0\1\2\4\7\x0c\x20\x80\xff", 9), [&](const std::string& bytes, auto&) {
        test::write_text(path, bytes);
        const size_t peak = peak_of([&] {
          is_accepted([&] {
            const GgufReader file(path);
            file.integer("llama.block_count");
            file.texts("tokenizer.ggml.tokens");
            file.numbers("tokenizer.ggml.scores");
            for (const GgufTensor& tensor : file.tensors()) {
              std::vector<float> numbers(static_cast<size_t>(tensor.numel()));
              file.read(tensor, 0, numbers);
            }
          });
        });
        ASSERT_LE(peak, 4 * allowed_memory(bytes.size()));
      });
}

TEST(MutationTest, ManyTinyTensorsCostNoMoreThanTheirFile) {
  std::string header = "{";
  for (int i = 0; i < 20000; ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          i > 0 ? "," : "", i);
  }
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  const auto path = folder / "model.safetensors";
  test::write_text(path, test::raw_safetensors(header + "}", 0));
  const auto file_bytes = static_cast<size_t>(std::filesystem::file_size(path));
  EXPECT_LE(peak_of([&] { const SafetensorsReader reader(path); }), allowed_memory(file_bytes));
}

TEST(MutationTest, IndexFiles) {
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  test::write_safetensors(folder / "model-00001-of-00002.safetensors",
                          {{"a", ScalarType::u8, {4}}});
  test::write_safetensors(folder / "model-00002-of-00002.safetensors",
                          {{"b", ScalarType::u8, {4}}});
  const std::string good = R"({"metadata": {"total_size": 8}, "weight_map": {
    "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})";
  Mutator mutate(2);
  int accepted = 0;
  for (int i = 0; i < 8000; ++i) {
    test::write_text(folder / "model.safetensors.index.json", mutate(good));
    accepted += is_accepted([&] {
      const TensorDirectory directory(folder.path());
      EXPECT_EQ(directory.names(), (std::vector<std::string>{"a", "b"}));
    });
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 4000);
}

TEST(MutationTest, ManifestsAreNeverAcceptedWithOtherContents) {
  Manifest manifest;
  manifest.files = {{"config.json", 2, {{0, 2, 17}}},
                    {"training_state/a.safetensors", 96, {{0, 64, ~uint64_t{0}}, {64, 32, 1}}}};
  const std::string good = manifest.to_json();
  Mutator mutate(3);
  for (int i = 0; i < 8000; ++i) {
    const std::string bad = mutate(good);
    is_accepted([&] { EXPECT_EQ(Manifest::parse(bad, "manifest.json"), manifest) << bad; });
  }
}

}  // namespace
}  // namespace colossal::io
