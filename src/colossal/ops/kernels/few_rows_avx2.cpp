#define COLOSSAL_VARIANT avx2_few_rows
#include "colossal/ops/kernels/few_rows.inc"
