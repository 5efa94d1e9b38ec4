#define COLOSSAL_VARIANT baseline_paged
#include "colossal/ops/kernels/paged.inc"
