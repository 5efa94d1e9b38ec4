#define COLOSSAL_VARIANT avx512_few_rows
#include "colossal/ops/kernels/few_rows.inc"
