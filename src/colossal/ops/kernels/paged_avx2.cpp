#define COLOSSAL_VARIANT avx2_paged
#include "colossal/ops/kernels/paged.inc"
