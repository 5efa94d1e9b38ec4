#include "colossal/checkpoint/packed_integers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "colossal/base/error.h"
#include "colossal/checkpoint/held_tensor.h"
#include "colossal/checkpoint/packed_words.h"
#include "colossal/checkpoint/tensor_values.h"

namespace colossal::checkpoint {
namespace {

constexpr std::string_view kWeight = "weight";

// Returns the name of another tensor of the same module: `end` replaces "weight".
std::string beside(const std::string& name, std::string_view end) {
  return name.substr(0, name.size() - kWeight.size()) + std::string(end);
}

std::vector<uint32_t> read_words(const FileTensor& tensor) {
  const std::vector<std::byte> bytes = read_bytes(tensor, 0, tensor.entry->bytes());
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint32_t));
  return words;
}

uint8_t code_in(uint32_t word, int64_t place, int64_t bits) {
  return static_cast<uint8_t>(word >> (place * bits) & ((1U << bits) - 1));
}

// Returns the place of an output in a word of awq, which has eight outputs.
int64_t place_in_awq(int64_t output) {
  constexpr std::array<int64_t, 8> kPlaces{0, 4, 1, 5, 2, 6, 3, 7};
  return kPlaces[static_cast<size_t>(output % 8)];
}

// The tensors that store one matrix, and what is known without reading them.
struct Parts {
  enum class Form { gptq, awq, compressed };
  Form form = Form::compressed;
  FileTensor codes{}, scales{};
  std::optional<FileTensor> zeros, groups_of_inputs;
  int64_t bits = 0, outputs = 0, inputs = 0, groups = 0;
  int64_t group = 0;  // inputs that share a scale
  bool zeros_less_one = false, in_out = false;

  int64_t codes_of_word() const { return kWordBits / bits; }
};

// Scales and zero points of a matrix's groups.
struct Groups {
  std::vector<float> scales;    // [outputs, groups]
  std::vector<uint8_t> zeros;   // [outputs, groups]
  std::vector<int64_t> inputs;  // the group of each input
  bool are_runs = true;         // whether each group is Parts::group consecutive inputs
};

std::vector<int64_t> read_group_of_inputs(const Parts& parts) {
  std::vector<int64_t> groups(static_cast<size_t>(parts.inputs));
  if (!parts.groups_of_inputs) {
    for (int64_t i = 0; i < parts.inputs; ++i) {
      groups[static_cast<size_t>(i)] = i / parts.group;
    }
    return groups;
  }
  const std::vector<uint32_t> words = read_words(*parts.groups_of_inputs);
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i] = words[i];
    if (groups[i] >= parts.groups) {
      throw ConfigError(fmt::format("{}: tensor \"{}\": input {} is of group {}, there are {}",
                                    parts.codes.file->path().string(),
                                    parts.groups_of_inputs->entry->name, i, groups[i],
                                    parts.groups));
    }
  }
  return groups;
}

uint8_t zero_of(const Parts& parts, const std::vector<uint32_t>& words, int64_t output,
                int64_t group) {
  if (words.empty()) return static_cast<uint8_t>(1U << (parts.bits - 1));
  const int64_t in_word = parts.codes_of_word(), outputs = parts.outputs;
  const int64_t of_group = words_of(outputs, parts.bits);
  if (parts.form == Parts::Form::compressed) {
    const uint32_t word = words[static_cast<size_t>(output / in_word * parts.groups + group)];
    return code_in(word, output % in_word, parts.bits);
  }
  const uint32_t word = words[static_cast<size_t>(group * of_group + output / in_word)];
  if (parts.form == Parts::Form::awq) return code_in(word, place_in_awq(output), parts.bits);
  // Stored less one, a zero point of 0 is the largest code. Adding one wraps around.
  const uint32_t stored = code_in(word, output % in_word, parts.bits);
  return code_in(stored + (parts.zeros_less_one ? 1 : 0), 0, parts.bits);
}

Groups read_groups(const Parts& parts) {
  Groups groups{.inputs = read_group_of_inputs(parts)};
  const std::vector<float> scales = read_floats(parts.scales);
  const std::vector<uint32_t> zeros =
      parts.zeros ? read_words(*parts.zeros) : std::vector<uint32_t>{};
  const bool by_output = parts.form == Parts::Form::compressed;
  for (int64_t output = 0; output < parts.outputs; ++output) {
    for (int64_t group = 0; group < parts.groups; ++group) {
      groups.scales.push_back(scales[static_cast<size_t>(
          by_output ? output * parts.groups + group : group * parts.outputs + output)]);
      groups.zeros.push_back(zero_of(parts, zeros, output, group));
    }
  }
  for (int64_t i = 0; i < parts.inputs; ++i) {
    groups.are_runs &= groups.inputs[static_cast<size_t>(i)] == i / parts.group;
  }
  return groups;
}

class PackedIntegers : public StoredTensor {
 public:
  PackedIntegers(const std::string& name, const Parts& parts)
      : StoredTensor(name, parts.codes.file->path(),
                     parts.in_out ? std::vector{parts.inputs, parts.outputs}
                                  : std::vector{parts.outputs, parts.inputs},
                     at::kFloat),
        parts_(parts) {}

  void read(int64_t first, std::span<std::byte> destination) const override {
    const Groups& groups = of_groups();
    if (words_.empty()) words_ = read_words(parts_.codes);
    const auto count = static_cast<int64_t>(destination.size() / sizeof(float));
    const int64_t row_size = shape().back();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (first + i) / row_size, column = (first + i) % row_size;
      const int64_t output = parts_.in_out ? column : row, input = parts_.in_out ? row : column;
      const auto place =
          static_cast<size_t>(output * parts_.groups + groups.inputs[static_cast<size_t>(input)]);
      const int steps = code_at(output, input) - groups.zeros[place];
      const float number = static_cast<float>(steps) * groups.scales[place];
      std::memcpy(destination.data() + static_cast<size_t>(i) * sizeof(float), &number,
                  sizeof(float));
    }
  }

  std::optional<ops::Quantization> quantization() const override {
    using Type = ops::Quantization::Type;
    const Groups& groups = of_groups();
    const bool one_group = parts_.groups == 1;
    const int64_t group = parts_.group;
    if (!groups.are_runs || (!one_group && group % ops::Quantization::kGroupStep != 0)) {
      return std::nullopt;
    }
    ops::Quantization how{.type = parts_.bits == 4 ? Type::int4 : Type::int8,
                          .group = one_group ? 0 : group};
    how.zero_point = parts_.bits == 4 && parts_.zeros.has_value();
    constexpr uint8_t kMiddle = 128;
    const bool in_middle =
        std::ranges::all_of(groups.zeros, [](uint8_t zero) { return zero == kMiddle; });
    if (parts_.bits == 8 && !in_middle) return std::nullopt;
    return how;
  }

  std::unique_ptr<StoredTensor> scales() const override {
    return of_groups_as_tensor(of_groups().scales);
  }
  std::unique_ptr<StoredTensor> zeros() const override {
    if (parts_.bits == 8 || !parts_.zeros) return nullptr;
    const std::vector<uint8_t>& zeros = of_groups().zeros;
    return of_groups_as_tensor({zeros.begin(), zeros.end()});
  }

 private:
  // by_output: [outputs, groups]
  std::unique_ptr<StoredTensor> of_groups_as_tensor(const std::vector<float>& by_output) const {
    if (!parts_.in_out) {
      return std::make_unique<HeldTensor>(*this, std::vector{parts_.outputs, parts_.groups},
                                          by_output);
    }
    std::vector<float> by_group;
    for (int64_t group = 0; group < parts_.groups; ++group) {
      for (int64_t output = 0; output < parts_.outputs; ++output) {
        by_group.push_back(by_output[static_cast<size_t>(output * parts_.groups + group)]);
      }
    }
    return std::make_unique<HeldTensor>(*this, std::vector{parts_.groups, parts_.outputs},
                                        std::move(by_group));
  }

  const Groups& of_groups() const {
    if (!groups_) groups_ = read_groups(parts_);
    return *groups_;
  }

  int code_at(int64_t output, int64_t input) const {
    const int64_t in_word = parts_.codes_of_word();
    switch (parts_.form) {
      case Parts::Form::gptq:
        return code_in(words_[static_cast<size_t>(input / in_word * parts_.outputs + output)],
                       input % in_word, parts_.bits);
      case Parts::Form::awq:
        return code_in(words_[static_cast<size_t>(input * words_of(parts_.outputs, parts_.bits) +
                                                  output / in_word)],
                       place_in_awq(output), parts_.bits);
      case Parts::Form::compressed:
        return code_in(words_[static_cast<size_t>(output * words_of(parts_.inputs, parts_.bits) +
                                                  input / in_word)],
                       input % in_word, parts_.bits);
    }
    return 0;
  }

  Parts parts_;
  mutable std::optional<Groups> groups_;
  mutable std::vector<uint32_t> words_;
};

std::optional<FileTensor> find_part(const WeightFolder& folder, const std::string& name,
                                    std::string_view end) {
  const std::string part = beside(name, end);
  if (!folder.contains(part)) return std::nullopt;
  return folder.find(part);
}

// Returns the sizes of a matrix. Throws ConfigError if it does not have two dims.
std::array<int64_t, 2> sizes_of(const FileTensor& tensor) {
  if (tensor.entry->shape.size() != 2) require_shape(tensor, {0, 0});
  return {tensor.entry->shape[0], tensor.entry->shape[1]};
}

FileTensor need_part(const WeightFolder& folder, const std::string& name, std::string_view end) {
  if (const auto found = find_part(folder, name, end)) return *found;
  throw ConfigError(fmt::format("{}: no tensor \"{}\", which the packed weights need",
                                folder.path().string(), beside(name, end)));
}

// Sets how many inputs share a scale. said: the number in config.json, 0: all inputs; empty: it has
// none, and all groups are equal.
void set_group(Parts& parts, std::optional<int64_t> said) {
  const int64_t all = std::max<int64_t>(1, parts.inputs);
  parts.group = said ? *said : parts.groups > 0 ? all / parts.groups : 0;
  if (parts.group == 0) parts.group = all;
  const int64_t needed = (all + parts.group - 1) / parts.group;
  if (parts.groups == needed && (said || all % parts.group == 0)) return;
  throw ConfigError(
      fmt::format("{}: tensor \"{}\" has scales of {} groups; {} inputs in groups of {} need {}",
                  parts.scales.file->path().string(), parts.scales.entry->name, parts.groups,
                  parts.inputs, parts.group, needed));
}

Parts gptq_or_awq(const WeightFolder& folder, const std::string& name) {
  Parts parts{.codes = need_part(folder, name, "qweight"),
              .scales = need_part(folder, name, "scales")};
  parts.zeros = find_part(folder, name, "qzeros");
  const auto [rows, columns] = sizes_of(parts.codes);
  const auto [groups, outputs] = sizes_of(parts.scales);
  parts.bits = std::max<int64_t>(4, folder.form().bits);
  parts.groups = groups;
  parts.outputs = outputs;
  parts.in_out = folder.form().in_out;
  parts.form = folder.form().method == "awq" ? Parts::Form::awq : Parts::Form::gptq;
  if (parts.form == Parts::Form::awq) {
    parts.inputs = rows;
    require_tensor(parts.codes, io::ScalarType::i32, {rows, words_of(outputs, parts.bits)});
  } else {
    parts.inputs = rows * parts.codes_of_word();
    parts.zeros_less_one = folder.form().zeros_less_one;
    parts.groups_of_inputs = find_part(folder, name, "g_idx");
    require_tensor(parts.codes, io::ScalarType::i32, {rows, outputs});
    if (parts.groups_of_inputs) {
      require_tensor(*parts.groups_of_inputs, io::ScalarType::i32, {parts.inputs});
    }
  }
  if (parts.zeros) {
    require_tensor(*parts.zeros, io::ScalarType::i32, {groups, words_of(outputs, parts.bits)});
  }
  set_group(parts, folder.form().group);
  return parts;
}

Parts compressed(const WeightFolder& folder, const std::string& name) {
  Parts parts{.codes = need_part(folder, name, "weight_packed"),
              .scales = need_part(folder, name, "weight_scale")};
  parts.in_out = folder.form().in_out;
  const FileTensor shape = need_part(folder, name, "weight_shape");
  require_tensor(shape, io::ScalarType::i64, {2});
  std::array<int64_t, 2> sizes{};
  std::memcpy(sizes.data(), read_bytes(shape, 0, sizeof(sizes)).data(), sizeof(sizes));
  const auto [rows, words] = sizes_of(parts.codes);
  if (sizes[1] < 0 || sizes[1] > words * kWordBits) require_shape(parts.codes, {sizes[0], 0});
  parts.outputs = rows;
  parts.inputs = sizes[1];
  // The number of words shows how many bits a code has.
  parts.bits = words_of(parts.inputs, 4) == words ? 4 : 8;
  parts.groups = sizes_of(parts.scales)[1];
  require_tensor(parts.codes, io::ScalarType::i32, {sizes[0], words_of(sizes[1], parts.bits)});
  require_shape(parts.scales, {parts.outputs, parts.groups});
  parts.zeros = find_part(folder, name, "weight_zero_point");
  if (parts.zeros) {
    require_tensor(*parts.zeros, io::ScalarType::i32,
                   {words_of(parts.outputs, parts.bits), parts.groups});
  }
  set_group(parts, std::nullopt);
  return parts;
}

}  // namespace

std::unique_ptr<StoredTensor> find_packed_integers(const WeightFolder& folder,
                                                   const std::string& name) {
  if (!name.ends_with(kWeight)) return nullptr;
  if (find_part(folder, name, "qweight")) {
    return std::make_unique<PackedIntegers>(name, gptq_or_awq(folder, name));
  }
  if (find_part(folder, name, "weight_packed")) {
    return std::make_unique<PackedIntegers>(name, compressed(folder, name));
  }
  return nullptr;
}

std::vector<std::string> names_of_packed_integers(const WeightFolder& folder,
                                                  const std::string& name) {
  std::vector<std::string> names;
  if (!name.ends_with(kWeight)) return names;
  const bool of_gptq = folder.contains(beside(name, "qweight"));
  if (!of_gptq && !folder.contains(beside(name, "weight_packed"))) return names;
  const std::vector<std::string_view> ends =
      of_gptq ? std::vector<std::string_view>{"qweight", "qzeros", "scales", "g_idx"}
              : std::vector<std::string_view>{"weight_packed", "weight_scale", "weight_shape",
                                              "weight_zero_point"};
  for (const std::string_view end : ends) {
    if (folder.contains(beside(name, end))) names.push_back(beside(name, end));
  }
  return names;
}

}  // namespace colossal::checkpoint
