#include "colossal/ops/flat_tensor.h"

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"

namespace colossal::ops {

kernels::ElementType element_type(at::ScalarType type) {
  if (type == at::kDouble) return kernels::ElementType::float64;
  if (type == at::kFloat) return kernels::ElementType::float32;
  COLOSSAL_CHECK(type == at::kBFloat16, "element type {}; known are Double, Float and BFloat16",
                 c10::toString(type));
  return kernels::ElementType::bfloat16;
}

at::ScalarType compute_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.sizes())
    text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return "[" + text + "]";
}

int64_t pack_key(RandomKey key) {
  return static_cast<int64_t>((uint64_t{key.high} << 32) | key.low);
}

RandomKey unpack_key(int64_t packed) {
  const auto bits = static_cast<uint64_t>(packed);
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

std::vector<int64_t> pack_runs(const std::vector<Range>& runs) {
  std::vector<int64_t> packed;
  for (const Range& run : runs) {
    packed.push_back(run.begin);
    packed.push_back(run.end);
  }
  return packed;
}

std::vector<Range> unpack_runs(at::IntArrayRef packed) {
  std::vector<Range> runs;
  for (size_t i = 0; i < packed.size(); i += 2) runs.push_back({packed[i], packed[i + 1]});
  return runs;
}

kernels::DropoutRule dropout_rule(double probability) {
  COLOSSAL_CHECK(probability >= 0 && probability <= 1, "dropout probability {}", probability);
  const double threshold = std::min(std::round(probability * 0x1p32), 0x1p32 - 1);
  // For probability 1, one random word in 2^32 is not below the threshold; the factor 0 drops its
  // element.
  return {static_cast<uint32_t>(threshold), probability < 1 ? 1 / (1 - probability) : 0};
}

kernels::AdamWArrays adamw_arrays(const at::Tensor& master,
                                  const std::optional<at::Tensor>& working,
                                  const at::Tensor& first_moment, const at::Tensor& second_moment,
                                  const at::Tensor& gradient) {
  const bool separate = working.has_value() && working->defined();
  return {.master = master.mutable_data_ptr(),
          .master_type = element_type(master.scalar_type()),
          .working = separate ? working->mutable_data_ptr() : nullptr,
          .working_type = element_type(separate ? working->scalar_type() : master.scalar_type()),
          .first_moment = first_moment.mutable_data_ptr(),
          .second_moment = second_moment.mutable_data_ptr(),
          .moment_type = element_type(first_moment.scalar_type()),
          .gradient = gradient.const_data_ptr(),
          .gradient_type = element_type(gradient.scalar_type())};
}

}  // namespace colossal::ops
