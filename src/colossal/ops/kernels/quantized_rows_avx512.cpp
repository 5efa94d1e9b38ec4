#define COLOSSAL_VARIANT avx512_quantized_rows
#include "colossal/ops/kernels/quantized_rows.inc"
