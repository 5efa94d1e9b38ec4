#define COLOSSAL_VARIANT avx512_variant
#include "colossal/ops/kernels/variant.inc"
