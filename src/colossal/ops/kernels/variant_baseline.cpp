#define COLOSSAL_VARIANT baseline_variant
#include "colossal/ops/kernels/variant.inc"
