// PendingSum: a sum of numbers of which the host knows some, while a device still computes others.
// The host adds to it without waiting for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>

namespace colossal::ops {

class PendingSum {
 public:
  PendingSum() = default;
  template <typename Number>
  requires std::integral<Number> || std::floating_point<Number> PendingSum(Number known)
      : known_(static_cast<double>(known)) {}
  // scalar: one element. Its value is known at once if it is on the CPU; on meta it counts as 0.
  PendingSum(const at::Tensor& scalar);

  PendingSum& operator+=(const PendingSum& other);
  PendingSum operator/(double divisor) const;
  // Sets this to the larger of the two.
  void raise_to(const PendingSum& other);

  // The sum is known() + pending().
  double known() const { return known_; }
  const at::Tensor& pending() const { return pending_; }  // scalar, fp64; undefined: 0
  // Returns the sum as a scalar, fp64, on `device`, for which the host does not wait.
  at::Tensor on(const at::Device& device) const;
  // Waits for the device.
  double value() const;

 private:
  double known_ = 0;
  at::Tensor pending_;
};

}  // namespace colossal::ops
