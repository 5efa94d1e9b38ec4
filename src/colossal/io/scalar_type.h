// Element types of safetensors files, with the format's names and sizes.
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

const char* scalar_type_name(ScalarType type);  // "F32", "BF16", "BOOL", ...
int64_t scalar_type_bytes(ScalarType type);     // per element

// Finds a type by the format's name; nullopt if unsupported. Types narrower than a byte (F4,
// F6_E2M3, F6_E3M2) are not supported.
std::optional<ScalarType> find_scalar_type(std::string_view name);
std::string scalar_type_names();  // all of them, for error messages

}  // namespace colossal::io
