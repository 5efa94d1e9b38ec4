#define COLOSSAL_VARIANT avx2_variant
#include "colossal/ops/kernels/variant.inc"
