// Moves parts of matrices between the ranks of a group, one part at a time, overlapped with the
// matrix products that use or compute other parts: the steps of SUMMA and similar algorithms. No
// gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

// Broadcasts the parts of all ranks in turn; the next part travels while the current one is used.
// Law: one broadcast per part.
class Panels {
 public:
  // mine: this rank's part. shapes: shapes of all parts, in rank order.
  Panels(const at::Tensor& mine, std::vector<std::vector<int64_t>> shapes,
         const comm::Group& group);

  // Returns the part of rank 0, then of rank 1, and so on.
  at::Tensor next();

 private:
  void start();

  at::Tensor mine_;
  std::vector<std::vector<int64_t>> shapes_;
  const comm::Group& group_;
  int next_ = 0;  // rank whose part is broadcast next
  Pending under_way_;
};

// Reduces part r over all ranks onto rank r; one part travels while the next is computed. Law: for
// each part, every rank except r sends the part.
class PartialSums {
 public:
  explicit PartialSums(const comm::Group& group) : group_(group) {}

  // Sends this rank's term of the next part: first of rank 0's part, then of rank 1's, and so on.
  // `partial` must not change afterwards.
  void send(const at::Tensor& partial);
  // Returns this rank's part. Call it after all sends.
  at::Tensor wait();

 private:
  const comm::Group& group_;
  int next_ = 0;
  Pending under_way_;
  at::Tensor mine_;
};

}  // namespace colossal::parallel
