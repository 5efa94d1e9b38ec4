#include "colossal/ops/pending_sum.h"

#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>

#include <algorithm>

namespace colossal::ops {

PendingSum::PendingSum(const at::Tensor& scalar) {
  if (scalar.is_meta()) return;
  if (scalar.is_cpu()) {
    known_ = scalar.item<double>();
  } else {
    pending_ = scalar.detach().view(at::IntArrayRef{}).to(at::kDouble);
  }
}

PendingSum& PendingSum::operator+=(const PendingSum& other) {
  known_ += other.known_;
  if (other.pending_.defined()) {
    pending_ = pending_.defined() ? pending_ + other.pending_ : other.pending_;
  }
  return *this;
}

PendingSum PendingSum::operator/(double divisor) const {
  PendingSum quotient = known_ / divisor;
  if (pending_.defined()) quotient.pending_ = divisor == 1 ? pending_ : pending_ / divisor;
  return quotient;
}

void PendingSum::raise_to(const PendingSum& other) {
  if (!pending_.defined() && !other.pending_.defined()) {
    known_ = std::max(known_, other.known_);
    return;
  }
  const at::Device device = (pending_.defined() ? pending_ : other.pending_).device();
  pending_ = at::maximum(on(device), other.on(device));
  known_ = 0;
}

at::Tensor PendingSum::on(const at::Device& device) const {
  if (!pending_.defined()) {
    return at::full({}, known_, at::TensorOptions(at::kDouble).device(device));
  }
  return known_ == 0 ? pending_ : pending_ + known_;
}

double PendingSum::value() const {
  return pending_.defined() ? known_ + pending_.item<double>() : known_;
}

}  // namespace colossal::ops
