#define COLOSSAL_VARIANT avx512_product
#include "colossal/ops/kernels/product.inc"
