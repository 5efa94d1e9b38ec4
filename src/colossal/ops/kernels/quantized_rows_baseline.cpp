#define COLOSSAL_VARIANT baseline_quantized_rows
#include "colossal/ops/kernels/quantized_rows.inc"
