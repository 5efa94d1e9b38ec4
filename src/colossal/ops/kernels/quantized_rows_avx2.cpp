#define COLOSSAL_VARIANT avx2_quantized_rows
#include "colossal/ops/kernels/quantized_rows.inc"
