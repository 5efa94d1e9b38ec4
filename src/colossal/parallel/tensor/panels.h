// The communication of SUMMA and of similar distributed matrix products. A matrix is divided among
// the ranks of a group; its parts are sent one at a time, while the caller computes with another
// part. Not differentiable. All ranks of the group must make the same calls, in the same order
// relative to their other calls of the group. The group must outlive the objects.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

// Broadcasts the part of each rank to all ranks, in rank order. While the caller uses a part, the
// broadcast of the next part runs. Law: one broadcast per part.
class Panels {
 public:
  // Starts the first broadcast. mine: this rank's part, which must not be modified until next() has
  // returned it. shapes: the shape of each rank's part.
  Panels(const at::Tensor& mine, std::vector<std::vector<int64_t>> shapes,
         const comm::Group& group);

  // Returns the part of rank 0 in the first call, of rank 1 in the second call, and so on. Starts
  // the broadcast of the part after the returned one. Call it at most once per rank of the group.
  at::Tensor next();

 private:
  void start();

  at::Tensor mine_;
  std::vector<std::vector<int64_t>> shapes_;
  const comm::Group& group_;
  int next_ = 0;       // rank whose part is broadcast next
  Pending under_way_;  // the broadcast of the part that next() will return
};

// Sums a matrix over the ranks and leaves each rank its part of the sum. Every rank computes a term
// of each part; the terms of one part are summed onto its rank while the caller computes the term
// of the next part. Law: every rank sends its terms of all parts but its own.
class PartialSums {
 public:
  explicit PartialSums(const comm::Group& group) : group_(group) {}

  // Starts to send a term: in the first call this rank's term of rank 0's part, in the second call
  // of rank 1's part, and so on. `partial` must not be modified until the next send() or wait()
  // returns.
  void send(const at::Tensor& partial);
  // Returns this rank's part of the sum. Call it after one send() per rank of the group.
  at::Tensor wait();

 private:
  const comm::Group& group_;
  int next_ = 0;       // rank whose part is summed next
  Pending under_way_;  // the sum of the last send()
  at::Tensor mine_;    // this rank's part of the sum
};

}  // namespace colossal::parallel
