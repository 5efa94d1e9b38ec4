// The element types of tensors in safetensors files, with their names in the format and their
// sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colossal::io {

enum class ScalarType {
  f64,
  f32,
  bf16,
  f16,
  f8_e4m3,
  f8_e5m2,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f8_e8m0,
  c64,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
};

const char* scalar_type_name(ScalarType type);  // in the format: "F32", "BF16", "BOOL", ...
int64_t scalar_type_bytes(ScalarType type);     // size of an element

// Returns the type with this name in the format; nullopt if it is not supported. Types smaller than
// a byte (F4, F6_E2M3, F6_E3M2) are not supported.
std::optional<ScalarType> find_scalar_type(std::string_view name);
// Returns the names of all supported types, separated by commas, for error messages.
std::string scalar_type_names();

}  // namespace colossal::io
