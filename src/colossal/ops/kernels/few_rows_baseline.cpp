#define COLOSSAL_VARIANT baseline_few_rows
#include "colossal/ops/kernels/few_rows.inc"
