#include "colossal/ops/kernels/quantized_rows.h"

#include "colossal/ops/kernels/int8_tiles.h"
#include "colossal/ops/kernels/tile_product.h"

namespace colossal::ops::kernels {

const QuantizedKernels& baseline_quantized_rows();
const QuantizedKernels& avx2_quantized_rows();
const QuantizedKernels& avx512_quantized_rows();
void avx512_vnni_rows(const Int8Product& product, int64_t begin, int64_t end);
void amx_pack_int8_rows(const int8_t* codes, int64_t rows, int64_t depth, int64_t begin,
                        int64_t end, int8_t* packed);
void amx_multiply_int8(const Int8Product& product, const int8_t* packed, int64_t begin,
                       int64_t end);

namespace {

QuantizedKernels fastest_quantized() {
  const QuantizedKernels* widest = quantized_kernels(widest_instruction_set());
  QuantizedKernels kernels = widest ? *widest : baseline_quantized_rows();
  if (const MultiplyInt8 native = native_int8_product()) kernels.int8_int8 = native;
  return kernels;
}

}  // namespace

const QuantizedKernels* quantized_kernels(InstructionSet instruction_set) {
  if (instruction_set > widest_instruction_set()) return nullptr;
#if defined(__x86_64__)
  if (instruction_set == InstructionSet::avx512) return &avx512_quantized_rows();
  if (instruction_set == InstructionSet::avx2) {
    return __builtin_cpu_supports("fma") ? &avx2_quantized_rows() : nullptr;
  }
#endif
  return &baseline_quantized_rows();
}

MultiplyInt8 native_int8_product() {
#if defined(__x86_64__)
  if (widest_instruction_set() == InstructionSet::avx512 && __builtin_cpu_supports("avx512vnni")) {
    return avx512_vnni_rows;
  }
#endif
  return nullptr;
}

const Int8TileKernels* int8_tile_kernels() {
#if defined(__x86_64__)
  static constexpr Int8TileKernels kKernels{amx_pack_int8_rows, amx_multiply_int8};
  static const bool supported = native_int8_product() && has_amx_int8() && tiles_are_allowed();
  if (supported) return &kKernels;
#endif
  return nullptr;
}

const QuantizedKernels& quantized_kernels() {
  static const QuantizedKernels kernels = fastest_quantized();
  return kernels;
}

}  // namespace colossal::ops::kernels
