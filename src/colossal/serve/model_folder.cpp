#include "colossal/serve/model_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/io/json.h"
#include "colossal/io/tensor_directory.h"

namespace colossal::serve {
namespace {

// Returns a field of a JSON file; null if the file or the field is missing.
nlohmann::json read_field(const std::filesystem::path& file, const char* field) {
  if (!std::filesystem::exists(file)) return nullptr;
  const nlohmann::json json = io::read_json(file);
  return json.is_object() ? json.value(field, nlohmann::json()) : nlohmann::json();
}

bool is_type_of_weights(io::ScalarType type) {
  return type == io::ScalarType::f64 || type == io::ScalarType::f32 ||
         type == io::ScalarType::f16 || type == io::ScalarType::bf16;
}

// Whether a tensor has the scales or zero points of a quantized weight. Their dtype says nothing
// about the model's dtype.
bool is_of_few_bits(const std::string& name) {
  constexpr std::string_view kEnds[] = {"_scale_inv", "_scale", ".scales", "_zero_point"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

at::ScalarType stored_type(const std::filesystem::path& folder) {
  const io::TensorDirectory directory(folder);
  for (const auto& file : directory.files()) {
    for (const io::TensorEntry& entry : file->entries()) {
      // Skips quantized weights, which are decoded to the dtype of the other weights, such as
      // embeddings and norms.
      if (!is_type_of_weights(entry.type) || is_of_few_bits(entry.name)) continue;
      return checkpoint::tensor_type(entry, file->path());
    }
  }
  return at::kFloat;
}

}  // namespace

Pooling default_pooling(const std::filesystem::path& folder, bool causal) {
  const std::filesystem::path file = folder / "1_Pooling" / "config.json";
  if (!std::filesystem::exists(file)) return causal ? Pooling::last : Pooling::mean;
  if (read_field(file, "pooling_mode_cls_token") == true) return Pooling::first;
  if (read_field(file, "pooling_mode_mean_tokens") == true) return Pooling::mean;
  if (read_field(file, "pooling_mode_lasttoken") == true) return Pooling::last;
  throw ConfigError(fmt::format(
      "{}: only pooling_mode_cls_token, pooling_mode_mean_tokens and pooling_mode_lasttoken are "
      "supported",
      file.string()));
}

at::ScalarType compute_type(const std::filesystem::path& folder) {
  std::string name;
  for (const char* field : {"dtype", "torch_dtype"}) {
    const nlohmann::json type = read_field(folder / "config.json", field);
    if (name.empty() && type.is_string()) name = type.get<std::string>();
  }
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "float32") return at::kFloat;
  if (name == "float64") return at::kDouble;
  if (name == "bfloat16" || name == "float16") return at::kBFloat16;
  const at::ScalarType type = stored_type(folder);
  return type == at::kHalf ? at::kBFloat16 : type;
}

}  // namespace colossal::serve
