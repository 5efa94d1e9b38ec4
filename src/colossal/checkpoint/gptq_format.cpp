#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/checkpoint/packed_format.h"
#include "colossal/checkpoint/packed_words.h"

namespace colossal::checkpoint {
namespace {

using Type = ops::Quantization::Type;

// Loaders replace products whose sizes are multiples of this, so that rows are whole words.
constexpr int64_t kSizeStep = 32;
constexpr std::string_view kWeightEnd = "weight";

int64_t integer_bits(const ops::Quantization& how) {
  return how.type == Type::int4 ? 4 : 8;
}

// The zero point of codes that have none of their own: the middle of their range.
int64_t middle_of(const ops::Quantization& how) {
  return int64_t{1} << (integer_bits(how) - 1);
}

void require_sizes(const std::string& name, const QuantizedTensor& weight) {
  if (weight.inputs % kSizeStep == 0 && weight.outputs % kSizeStep == 0) return;
  throw ConfigError(fmt::format(
      "{}: {} inputs and {} outputs: the gptq format, which has the form for this model's "
      "products, holds sizes that are multiples of {}; --quantize of generate, serve and evaluate "
      "rounds other sizes as they are read",
      name, weight.inputs, weight.outputs, kSizeStep));
}

void require_integers(const std::string& name, const ops::Quantization& how) {
  if (how.type != Type::fp8) return;
  throw ConfigError(fmt::format(
      "{}: the gptq format, which has the form for this model's products, holds integers, not fp8: "
      "use --quantize=int8 or int4; --quantize=fp8 of generate, serve and evaluate rounds weights "
      "as they are read",
      name));
}

// A product whose inputs are no whole groups has one scale for each output.
void require_one_group_size(const QuantizedTensors& quantized) {
  const QuantizedTensors::value_type* whole = nullptr;
  int64_t group = 0;
  for (const auto& each : quantized) {
    group = std::max(group, each.second.how.group);
    if (each.second.how.group == 0) whole = &each;
  }
  if (group == 0 || !whole) return;
  throw ConfigError(fmt::format(
      "--quantize-group={}: the gptq format, which has the form for this model's products, has one "
      "group size for all of them, and the {} inputs of {} are no whole groups of {}: give "
      "--quantize-group={}, or 0 (all inputs of an output)",
      group, whole->second.inputs, whole->first, group, kSizeStep));
}

class GptqFormat : public PackedFormat {
 public:
  void require_writable(const QuantizedTensors& quantized) const override {
    for (const auto& [name, weight] : quantized) {
      require_integers(name, weight.how);
      require_sizes(name, weight);
    }
    require_one_group_size(quantized);
  }

  std::vector<io::TensorSpec> tensors_of(const std::string& name, const QuantizedTensor& weight,
                                         io::ScalarType) const override {
    const std::string module = name.substr(0, name.size() - kWeightEnd.size());
    const auto& [how, outputs, inputs] = weight;
    const int64_t groups = ops::groups_of_output(inputs, how), bits = integer_bits(how);
    return {{module + "qweight", io::ScalarType::i32, {words_of(inputs, bits), outputs}},
            {module + "qzeros", io::ScalarType::i32, {groups, words_of(outputs, bits)}},
            {module + "scales", io::ScalarType::f16, {groups, outputs}},
            {module + "g_idx", io::ScalarType::i32, {inputs}}};
  }

  std::vector<at::Tensor> encode(const UnpackedMatrix& matrix, const QuantizedTensor& weight,
                                 io::ScalarType) const override {
    const ops::Quantization& how = weight.how;
    const int64_t bits = integer_bits(how), middle = middle_of(how);
    const at::Tensor codes =
        how.type == Type::int8 ? matrix.codes.bitwise_xor(middle) : matrix.codes;
    // In checkpoint_format "gptq", zero points are stored minus 1.
    const at::Tensor zeros =
        how.zero_point ? matrix.zeros : at::full(matrix.scales.sizes(), middle - 1, at::kByte);
    const int64_t group = ops::inputs_of_group(weight.inputs, how);
    return {pack_words(codes, bits).t().contiguous(), pack_words(zeros.t(), bits),
            matrix.scales.t().to(at::kHalf).contiguous(),
            at::arange(weight.inputs, at::kInt).floor_divide(group).to(at::kInt)};
  }

  nlohmann::ordered_json config(const QuantizedTensors& quantized,
                                const std::vector<std::string>&) const override {
    const ops::Quantization& how = quantized.begin()->second.how;
    return {{"quant_method", "gptq"},
            {"bits", integer_bits(how)},
            {"group_size", how.group > 0 ? how.group : -1},
            {"desc_act", false},
            {"sym", !how.zero_point},
            {"lm_head", false},
            {"checkpoint_format", how.zero_point ? "gptq_v2" : "gptq"}};
  }
};

}  // namespace

std::unique_ptr<PackedFormat> gptq_format() {
  return std::make_unique<GptqFormat>();
}

}  // namespace colossal::checkpoint
