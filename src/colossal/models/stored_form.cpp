#include "colossal/models/stored_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "colossal/base/error.h"
#include "colossal/io/json.h"

namespace colossal::models {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_form(const std::string& field, const json& value,
                              const std::string& what_is_read) {
  throw ConfigError(
      fmt::format("config.json: quantization_config: {} = {}: this quantization format is not "
                  "supported, {}; use the model's folder with F32, BF16 or F16 weights",
                  field, io::show_value(value), what_is_read));
}

json field_of(const json& object, const char* name) {
  return object.is_object() ? object.value(name, json()) : json();
}

std::string lower_case(const json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : "";
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

int64_t read_bits(const json& given, const json& bits, std::initializer_list<int64_t> read) {
  if (bits.is_number_integer() && std::ranges::count(read, bits.get<int64_t>()) > 0) {
    return bits.get<int64_t>();
  }
  refuse_form("bits", bits,
              fmt::format("{} supports {} bits", lower_case(field_of(given, "quant_method")),
                          fmt::join(read, " or ")));
}

// Reads a group size. Returns 0 for -1: all inputs of an output.
int64_t read_group(const json& group) {
  if (group == -1) return 0;
  if (group.is_number_integer() && group > 0 && group < (int64_t{1} << 31)) {
    return group.get<int64_t>();
  }
  refuse_form("group_size", group, "only sizes above 0 and -1");
}

StoredForm read_gptq(const json& given) {
  // The newer of the two names is "format".
  const char* field = given.contains("checkpoint_format") ? "checkpoint_format" : "format";
  const json format = field_of(given, field);
  if (!format.is_null() && format != "gptq" && format != "gptq_v2") {
    refuse_form(field, format, "only \"gptq\" and \"gptq_v2\"");
  }
  if (field_of(given, "is_marlin_format") == true) {
    refuse_form("is_marlin_format", true, "only the packing of gptq itself");
  }
  return {.method = "gptq",
          .bits = read_bits(given, field_of(given, "bits"), {4, 8}),
          .group = read_group(field_of(given, "group_size")),
          .zeros_less_one = format != "gptq_v2"};
}

StoredForm read_awq(const json& given) {
  const json version = field_of(given, "version");
  if (!version.is_null() && lower_case(version) != "gemm") {
    refuse_form("version", version, "only \"gemm\"");
  }
  const json bits = given.contains("bits") ? given["bits"] : field_of(given, "w_bit");
  const char* group = given.contains("group_size") ? "group_size" : "q_group_size";
  return {.method = "awq",
          .bits = read_bits(given, bits, {4}),
          .group = read_group(field_of(given, group))};
}

void set_blocks(StoredForm& form, const char* field, const json& blocks) {
  if (blocks.is_null()) return;
  if (!blocks.is_array() || blocks.size() != 2 ||
      !std::ranges::all_of(blocks, [](const json& size) {
        return size.is_number_integer() && size > 0 && size < (int64_t{1} << 31);
      })) {
    refuse_form(field, blocks, "only a list of two sizes");
  }
  form.block_rows = blocks[0].get<int64_t>();
  form.block_columns = blocks[1].get<int64_t>();
}

StoredForm read_fp8(const json& given) {
  StoredForm form{.method = "fp8"};
  const json format = field_of(given, "fmt");
  if (!format.is_null() && format != "e4m3") refuse_form("fmt", format, "only \"e4m3\"");
  set_blocks(form, "weight_block_size", field_of(given, "weight_block_size"));
  return form;
}

// Reads one group of modules of compressed-tensors: how their weights are stored. Ignores how
// inputs would be quantized: they are multiplied as they are.
void read_config_group(StoredForm& form, const json& weights) {
  const json type = field_of(weights, "type"), bits = field_of(weights, "num_bits");
  const bool of_integers = (type.is_null() || type == "int") && (bits == 4 || bits == 8);
  const bool of_floats = type == "float" && bits == 8;
  if (!of_integers && !of_floats) {
    refuse_form("weights", weights, "only \"int\" of 4 or 8 bits and \"float\" of 8 bits");
  }
  const std::string order = lower_case(field_of(weights, "actorder"));
  if (order == "group" || order == "dynamic") {
    refuse_form("actorder", field_of(weights, "actorder"), "only \"weight\" and null");
  }
  set_blocks(form, "block_structure", field_of(weights, "block_structure"));
}

StoredForm read_compressed(const json& given) {
  constexpr std::array<std::string_view, 5> kFormats{
      "pack-quantized", "float-quantized", "int-quantized", "naive-quantized", "mixed-precision"};
  StoredForm form{.method = "compressed-tensors"};
  const json format = field_of(given, "format");
  if (!std::ranges::any_of(kFormats, [&](std::string_view read) { return format == read; })) {
    refuse_form("format", format, fmt::format("only {}", fmt::join(kFormats, ", ")));
  }
  for (const char* field : {"kv_cache_scheme", "transform_config"}) {
    const json value = field_of(given, field);
    if (!value.is_null() && !(value.is_object() && value.empty())) {
      refuse_form(field, value, "only null");
    }
  }
  const json sparsity = field_of(field_of(given, "sparsity_config"), "format");
  if (!sparsity.is_null() && sparsity != "dense") {
    refuse_form("sparsity_config.format", sparsity, "only \"dense\"");
  }
  const json groups = field_of(given, "config_groups");
  if (!groups.is_object()) refuse_form("config_groups", groups, "only named groups");
  for (const auto& [name, group] : groups.items()) {
    read_config_group(form, field_of(group, "weights"));
  }
  return form;
}

}  // namespace

StoredForm read_stored_form(const json& given) {
  if (given.is_null()) return {};
  const json method = field_of(given, "quant_method");
  if (method == "mxfp4") return {.method = "mxfp4"};
  if (method == "fp8") return read_fp8(given);
  if (method == "gptq") return read_gptq(given);
  if (method == "awq") return read_awq(given);
  if (method == "compressed-tensors") return read_compressed(given);
  refuse_form("quant_method", method,
              "only \"gptq\", \"awq\", \"compressed-tensors\", \"fp8\" and \"mxfp4\"");
}

}  // namespace colossal::models
