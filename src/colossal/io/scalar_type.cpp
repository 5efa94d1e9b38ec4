#include "colossal/io/scalar_type.h"

#include "colossal/base/error.h"

namespace colossal::io {
namespace {

struct Row {
  ScalarType type;
  const char* name;
  int64_t bytes;
};

constexpr Row kRows[] = {
    {ScalarType::f64, "F64", 8},
    {ScalarType::f32, "F32", 4},
    {ScalarType::bf16, "BF16", 2},
    {ScalarType::f16, "F16", 2},
    {ScalarType::f8_e4m3, "F8_E4M3", 1},
    {ScalarType::f8_e5m2, "F8_E5M2", 1},
    {ScalarType::f8_e4m3fnuz, "F8_E4M3FNUZ", 1},
    {ScalarType::f8_e5m2fnuz, "F8_E5M2FNUZ", 1},
    {ScalarType::f8_e8m0, "F8_E8M0", 1},
    {ScalarType::c64, "C64", 8},
    {ScalarType::i64, "I64", 8},
    {ScalarType::i32, "I32", 4},
    {ScalarType::i16, "I16", 2},
    {ScalarType::i8, "I8", 1},
    {ScalarType::u64, "U64", 8},
    {ScalarType::u32, "U32", 4},
    {ScalarType::u16, "U16", 2},
    {ScalarType::u8, "U8", 1},
    {ScalarType::boolean, "BOOL", 1},
};

const Row& row_of(ScalarType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row;
  }
  raise_internal_error(__FILE__, __LINE__, "type is listed",
                       fmt::format("scalar type {}", static_cast<int>(type)));
}

}  // namespace

const char* scalar_type_name(ScalarType type) {
  return row_of(type).name;
}

int64_t scalar_type_bytes(ScalarType type) {
  return row_of(type).bytes;
}

std::optional<ScalarType> find_scalar_type(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string scalar_type_names() {
  std::string names;
  for (const Row& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace colossal::io
