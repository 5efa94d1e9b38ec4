// Moves parts of matrices between the ranks of a group, one after the other, while products use or
// make others: the steps of SUMMA and similar algorithms. No gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

// Brings the parts of all ranks in turn to each of them: while one is used the next is under way.
// Law: a broadcast of each.
class Panels {
 public:
  // mine: this rank's part. shapes: of all parts, in rank order.
  Panels(const at::Tensor& mine, std::vector<std::vector<int64_t>> shapes,
         const comm::Group& group);

  // The part of rank 0, then of rank 1 and so on. It lives as long as it is held.
  at::Tensor next();

 private:
  void start();

  at::Tensor mine_;
  std::vector<std::vector<int64_t>> shapes_;
  const comm::Group& group_;
  int next_ = 0;  // to be started
  Pending under_way_;
};

// Sums part r over all ranks on rank r: while one part is under way the next is computed. Law: each
// of the other ranks sends the part.
class PartialSums {
 public:
  explicit PartialSums(const comm::Group& group) : group_(group) {}

  // Sends this rank's term of a part: of rank 0's first, then of rank 1's and so on. `partial` must
  // not change afterwards.
  void send(const at::Tensor& partial);
  // This rank's part, when all are sent.
  at::Tensor wait();

 private:
  const comm::Group& group_;
  int next_ = 0;
  Pending under_way_;
  at::Tensor mine_;
};

}  // namespace colossal::parallel
