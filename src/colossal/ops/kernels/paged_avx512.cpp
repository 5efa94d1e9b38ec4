#define COLOSSAL_VARIANT avx512_paged
#include "colossal/ops/kernels/paged.inc"
