// Computes the bytes that each collective must send (the first table of docs/laws.md). group.cpp
// books the results in the ledger's column `law`; layout/redistribution.cpp predicts bytes with
// them. The NCCL backend, which cannot count what NCCL sends, also books them as `wire`. The other
// backends count `wire` themselves.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace colossal::comm {

// Numbers of elements, one per rank, in rank order.
using Counts = std::span<const int64_t>;

// Returns the sum of the counts.
inline int64_t total(Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Divides `numel` elements into `n` counts as evenly as possible. The first numel % n counts are
// larger by one than the others.
std::vector<int64_t> even_counts(int64_t numel, int n);

// Returns the offset of the first element of each part, then the total: counts.size() + 1 values.
std::vector<int64_t> offsets_of(Counts counts);

// Each function returns the bytes that rank `rank` sends in the function of the same name in
// group.h. rank, root: indices in the group. n: number of ranks in the group. numel: elements of
// the tensor. counts: elements of each rank's part. send_counts: elements that `rank` sends to each
// rank, including itself.
namespace law {

int64_t all_gather(Counts counts, int rank, int64_t element_bytes);
int64_t reduce_scatter(Counts counts, int rank, int64_t element_bytes);
int64_t all_reduce(int64_t numel, int n, int rank, int64_t element_bytes);
int64_t all_to_all(Counts send_counts, int rank, int64_t element_bytes);
int64_t broadcast(int64_t numel, int n, int rank, int root, int64_t element_bytes);

}  // namespace law
}  // namespace colossal::comm
