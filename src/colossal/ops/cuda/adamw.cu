#include "colossal/ops/cuda/elements.cuh"
#include "colossal/ops/cuda/kernels.h"

namespace colossal::ops::cuda {
namespace {

template <typename Real, typename Working, typename Moment, typename Gradient>
__global__ void update(Real* master, Working* working, Moment* first, Moment* second,
                       const Gradient* gradient, int64_t count, kernels::AdamWFactors factors) {
  const Real scale = static_cast<Real>(factors.gradient_scale);
  const Real first_rate = static_cast<Real>(1 - factors.beta1);
  const Real beta2 = static_cast<Real>(factors.beta2);
  const Real second_rate = static_cast<Real>(1 - factors.beta2);
  const Real decay = static_cast<Real>(factors.decay);
  const Real step_size = static_cast<Real>(-factors.step_size);
  const Real root_correction = static_cast<Real>(factors.root_correction);
  const Real epsilon = static_cast<Real>(factors.epsilon);
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Real g = widen<Real>(gradient[i]) * scale;
    const Real old = widen<Real>(first[i]);
    const Real m = old + first_rate * (g - old);
    const Real v = widen<Real>(second[i]) * beta2 + second_rate * g * g;
    const Real denominator = sqrt(v) / root_correction + epsilon;
    first[i] = narrow<Moment>(m);
    second[i] = narrow<Moment>(v);
    const Real weight = master[i] * decay + step_size * m / denominator;
    master[i] = weight;
    if (working) working[i] = narrow<Working>(weight);
  }
}

template <typename Real>
void adamw_as(const kernels::AdamWArrays& arrays, int64_t count,
              const kernels::AdamWFactors& factors, cudaStream_t stream) {
  with_type(arrays.working_type, [&](auto working) {
    with_type(arrays.moment_type, [&](auto moment) {
      with_type(arrays.gradient_type, [&](auto gradient) {
        using Working = decltype(working);
        using Moment = decltype(moment);
        using Gradient = decltype(gradient);
        update<<<blocks_for(count), kThreads, 0, stream>>>(
            static_cast<Real*>(arrays.master), static_cast<Working*>(arrays.working),
            static_cast<Moment*>(arrays.first_moment), static_cast<Moment*>(arrays.second_moment),
            static_cast<const Gradient*>(arrays.gradient), count, factors);
      });
    });
  });
}

}  // namespace

void adamw(const kernels::AdamWArrays& arrays, int64_t count, const kernels::AdamWFactors& factors,
           cudaStream_t stream) {
  if (count == 0) return;
  const bool wide = arrays.master_type == ElementType::float64;
  (wide ? adamw_as<double> : adamw_as<float>)(arrays, count, factors, stream);
}

}  // namespace colossal::ops::cuda
