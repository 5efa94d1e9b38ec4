#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "colossal/checkpoint/packed_format.h"
#include "colossal/checkpoint/packed_words.h"

namespace colossal::checkpoint {
namespace {

using Type = ops::Quantization::Type;

int64_t code_bits(Type type) {
  return type == Type::int4 ? 4 : 8;
}

// The name of a module's tensor, beside that of its weight.
std::string module_of(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

io::ScalarType type_of_scales(io::ScalarType of_weight) {
  const bool wide = of_weight == io::ScalarType::f32 || of_weight == io::ScalarType::f64;
  return wide ? io::ScalarType::f32 : io::ScalarType::bf16;
}

nlohmann::ordered_json arguments_of(const ops::Quantization& how) {
  const bool by_group = how.group > 0;
  return {{"num_bits", code_bits(how.type)},
          {"type", how.type == Type::fp8 ? "float" : "int"},
          {"symmetric", !how.zero_point},
          {"strategy", by_group ? "group" : "channel"},
          {"group_size", by_group ? nlohmann::json(how.group) : nlohmann::json()},
          {"dynamic", false}};
}

class CompressedTensorsFormat : public PackedFormat {
 public:
  void require_writable(const QuantizedTensors&) const override {}

  std::vector<io::TensorSpec> tensors_of(const std::string& name, const QuantizedTensor& weight,
                                         io::ScalarType type) const override {
    const auto& [how, outputs, inputs] = weight;
    const int64_t groups = ops::groups_of_output(inputs, how), bits = code_bits(how.type);
    const io::TensorSpec scales{name + "_scale", type_of_scales(type), {outputs, groups}};
    if (how.type == Type::fp8) {
      return {{name, io::ScalarType::f8_e4m3, {outputs, inputs}}, scales};
    }
    std::vector<io::TensorSpec> specs{
        {name + "_packed", io::ScalarType::i32, {outputs, words_of(inputs, bits)}},
        scales,
        {name + "_shape", io::ScalarType::i64, {2}}};
    if (how.zero_point) {
      specs.push_back(
          {name + "_zero_point", io::ScalarType::i32, {words_of(outputs, bits), groups}});
    }
    return specs;
  }

  std::vector<at::Tensor> encode(const UnpackedMatrix& matrix, const QuantizedTensor& weight,
                                 io::ScalarType type) const override {
    const Type codes_of = weight.how.type;
    const bool wide = type_of_scales(type) == io::ScalarType::f32;
    const at::Tensor scales = matrix.scales.to(wide ? at::kFloat : at::kBFloat16).contiguous();
    if (codes_of == Type::fp8) return {matrix.codes.contiguous(), scales};
    // Signed codes move up by half their range.
    constexpr int kMiddle = 128;
    const at::Tensor codes =
        codes_of == Type::int8 ? matrix.codes.bitwise_xor(kMiddle) : matrix.codes;
    std::vector<at::Tensor> encoded{pack_words(codes, code_bits(codes_of)), scales,
                                    at::tensor({weight.outputs, weight.inputs}, at::kLong)};
    if (weight.how.zero_point) {
      encoded.push_back(pack_words(matrix.zeros.t(), code_bits(codes_of)).t().contiguous());
    }
    return encoded;
  }

  nlohmann::ordered_json config(const QuantizedTensors& quantized,
                                const std::vector<std::string>& unquantized) const override {
    // The form of most modules is that of all linear layers. Modules of other forms are named, in
    // groups before it: loaders take the first group that fits.
    std::vector<std::pair<ops::Quantization, std::vector<std::string>>> forms;
    for (const auto& [tensor, weight] : quantized) {
      auto form = std::ranges::find(forms, weight.how, &decltype(forms)::value_type::first);
      if (form == forms.end()) form = forms.insert(form, {weight.how, {}});
      form->second.push_back(module_of(tensor));
    }
    std::ranges::stable_sort(forms, std::ranges::less(),
                             [](const auto& form) { return form.second.size(); });
    if (!forms.empty()) forms.back().second = {"Linear"};
    const bool floats = !forms.empty() && forms.front().first.type == Type::fp8;
    const char* format = floats ? "float-quantized" : "pack-quantized";
    nlohmann::ordered_json groups;
    for (const auto& [how, targets] : forms) {
      groups[fmt::format("group_{}", groups.size())] = {{"targets", targets},
                                                        {"weights", arguments_of(how)},
                                                        {"input_activations", nullptr},
                                                        {"output_activations", nullptr},
                                                        {"format", format}};
    }
    return {{"quant_method", "compressed-tensors"},
            {"format", format},
            {"quantization_status", "compressed"},
            {"config_groups", groups},
            {"ignore", unquantized},
            {"kv_cache_scheme", nullptr}};
  }
};

}  // namespace

std::unique_ptr<PackedFormat> compressed_tensors_format() {
  return std::make_unique<CompressedTensorsFormat>();
}

}  // namespace colossal::checkpoint
