#include "colossal/checkpoint/packed_words.h"

#include <ATen/ATen.h>

#include "colossal/base/error.h"

namespace colossal::checkpoint {

int64_t words_of(int64_t codes, int64_t bits) {
  return (codes * bits + kWordBits - 1) / kWordBits;
}

at::Tensor pack_words(const at::Tensor& codes, int64_t bits) {
  COLOSSAL_CHECK(bits == 4 || bits == 8, "codes of {} bits", bits);
  const int64_t rows = codes.size(0), bytes = 4 * words_of(codes.size(1), bits);
  const at::Tensor padded = at::zeros({rows, bytes * 8 / bits}, at::kByte);
  padded.narrow(1, 0, codes.size(1)).copy_(codes);
  if (bits == 8) return padded.view(at::kInt);
  const at::Tensor pairs = padded.view({rows, bytes, 2});
  return pairs.select(2, 0)
      .bitwise_or(pairs.select(2, 1).bitwise_left_shift(4))
      .contiguous()
      .view(at::kInt);
}

}  // namespace colossal::checkpoint
