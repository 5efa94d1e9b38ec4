// Moves parts of matrices between the ranks of a group, one part at a time, while matrix products
// use or compute other parts: the communication of SUMMA and similar algorithms. Not
// differentiable.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

// Broadcasts each rank's part to all ranks, in rank order; the next part travels while the caller
// uses the one before it. Law: one broadcast per part. All ranks construct it and call next() in
// the same order as their other calls of the group, which must outlive it.
class Panels {
 public:
  // mine: this rank's part. shapes: shapes of all parts, in rank order.
  Panels(const at::Tensor& mine, std::vector<std::vector<int64_t>> shapes,
         const comm::Group& group);

  // Returns the part of rank 0, then of rank 1, and so on: at most one call per rank. Starts the
  // broadcast of the part after it.
  at::Tensor next();

 private:
  void start();

  at::Tensor mine_;
  std::vector<std::vector<int64_t>> shapes_;
  const comm::Group& group_;
  int next_ = 0;  // rank whose part is broadcast next
  Pending under_way_;
};

// Sums part r over all ranks onto rank r, for every r; one part travels while the caller computes
// the next. Law: every rank sends its terms of all parts but its own.
class PartialSums {
 public:
  explicit PartialSums(const comm::Group& group) : group_(group) {}

  // Sends this rank's term of rank 0's part, then of rank 1's, and so on. `partial` must not be
  // modified until the next send() or wait() returns.
  void send(const at::Tensor& partial);
  // Returns this rank's part, summed. Call it after one send() per rank.
  at::Tensor wait();

 private:
  const comm::Group& group_;
  int next_ = 0;
  Pending under_way_;
  at::Tensor mine_;
};

}  // namespace colossal::parallel
