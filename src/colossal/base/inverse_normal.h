// inverse_normal_cdf(): the inverse of the cumulative distribution function of the standard normal
// distribution, which turns a uniform random number p in (0, 1) into a normal one, x. In all
// comments below, x is the result for p. It has the same bits on every CPU and for any vector
// width; its relative error is a few 1e-16. Computed only with IEEE add, multiply, divide and
// square root (no library call, no fused multiply-add). Sources that include this header must be
// compiled with -ffp-contract=off.
//
// Method: M. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied
// Statistics 37 (1988), procedure PPND16. It has three rational approximations: for p near 1/2,
// near the tails, and far in the tails. The kernel in ops/kernels/random.h calls
// inverse_normal_central() and inverse_normal_tail() itself.
#pragma once

#include "colossal/base/exact_log.h"

namespace colossal {

// The largest |p - 1/2| for which inverse_normal_central() holds.
inline constexpr double kInverseNormalCentral = 0.425;

// Returns x for p = q + 1/2. q: in [-0.425, 0.425].
[[gnu::always_inline]] inline double inverse_normal_central(double q) {
  const double r = 0.180625 - q * q;
  double numerator = 2.5090809287301226727e+3;
  numerator = numerator * r + 3.3430575583588128105e+4;
  numerator = numerator * r + 6.7265770927008700853e+4;
  numerator = numerator * r + 4.5921953931549871457e+4;
  numerator = numerator * r + 1.3731693765509461125e+4;
  numerator = numerator * r + 1.9715909503065514427e+3;
  numerator = numerator * r + 1.3314166789178437745e+2;
  numerator = numerator * r + 3.3871328727963666080e+0;
  double denominator = 5.2264952788528545610e+3;
  denominator = denominator * r + 2.8729085735721942674e+4;
  denominator = denominator * r + 3.9307895800092710610e+4;
  denominator = denominator * r + 2.1213794301586595867e+4;
  denominator = denominator * r + 5.3941960214247511077e+3;
  denominator = denominator * r + 6.8718700749205790830e+2;
  denominator = denominator * r + 4.2313330701600911252e+1;
  denominator = denominator * r + 1.0;
  return q * numerator / denominator;
}

// Returns |x|. root: sqrt(-log(t)) with t = min(p, 1 - p) < 0.075. `root` must be at most 5, which
// holds if t >= 1.4e-11.
[[gnu::always_inline]] inline double inverse_normal_near_tail(double root) {
  const double r = root - 1.6;
  double numerator = 7.74545014278341407640e-4;
  numerator = numerator * r + 2.27238449892691845833e-2;
  numerator = numerator * r + 2.41780725177450611770e-1;
  numerator = numerator * r + 1.27045825245236838258e0;
  numerator = numerator * r + 3.64784832476320460504e0;
  numerator = numerator * r + 5.76949722146069140550e0;
  numerator = numerator * r + 4.63033784615654529590e0;
  numerator = numerator * r + 1.42343711074968357734e0;
  double denominator = 1.05075007164441684324e-9;
  denominator = denominator * r + 5.47593808499534494600e-4;
  denominator = denominator * r + 1.51986665636164571966e-2;
  denominator = denominator * r + 1.48103976427480074590e-1;
  denominator = denominator * r + 6.89767334985100004550e-1;
  denominator = denominator * r + 1.67638483018380384940e0;
  denominator = denominator * r + 2.05319162663775882187e0;
  denominator = denominator * r + 1.0;
  return numerator / denominator;
}

// Returns |x| as inverse_normal_near_tail() does, for root > 5.
[[gnu::always_inline]] inline double inverse_normal_far_tail(double root) {
  const double r = root - 5.0;
  double numerator = 2.01033439929228813265e-7;
  numerator = numerator * r + 2.71155556874348757815e-5;
  numerator = numerator * r + 1.24266094738807843860e-3;
  numerator = numerator * r + 2.65321895265761230930e-2;
  numerator = numerator * r + 2.96560571828504891230e-1;
  numerator = numerator * r + 1.78482653991729133580e0;
  numerator = numerator * r + 5.46378491116411436990e0;
  numerator = numerator * r + 6.65790464350110377720e0;
  double denominator = 2.04426310338993978564e-15;
  denominator = denominator * r + 1.42151175831644588870e-7;
  denominator = denominator * r + 1.84631831751005468180e-5;
  denominator = denominator * r + 7.86869131145613259100e-4;
  denominator = denominator * r + 1.48753612908506148525e-2;
  denominator = denominator * r + 1.36929880922735805310e-1;
  denominator = denominator * r + 5.99832206555887937690e-1;
  denominator = denominator * r + 1.0;
  return numerator / denominator;
}

// Returns x for p in (0, 1) with |p - 1/2| > 0.425.
[[gnu::always_inline]] inline double inverse_normal_tail(double p) {
  const double tail = p < 0.5 ? p : 1.0 - p;
  const double root = __builtin_sqrt(-exact_log(tail));
  const double x = root > 5.0 ? inverse_normal_far_tail(root) : inverse_normal_near_tail(root);
  return p < 0.5 ? -x : x;
}

// Returns the x below which a standard normal variable lies with probability p. p: in (0, 1).
[[gnu::always_inline]] inline double inverse_normal_cdf(double p) {
  const double q = p - 0.5;
  const bool central = q <= kInverseNormalCentral && q >= -kInverseNormalCentral;
  return central ? inverse_normal_central(q) : inverse_normal_tail(p);
}

}  // namespace colossal
