// Computes the bytes that each collective must send: the first table of docs/laws.md. The functions
// return what rank `rank` of `n` ranks sends; element counts are in rank order. For these
// collectives, only these functions compute the ledger's column `law`. Colossal's own algorithms
// count the column `wire` independently of them; the NCCL backend books their results as `wire`,
// too.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace colossal::comm {

using Counts = std::span<const int64_t>;

inline int64_t total(Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Divides numel as evenly as possible into n counts: the first numel % n are larger by one.
std::vector<int64_t> even_counts(int64_t numel, int n);

// Returns n + 1 offsets: the start of each part, and the total.
std::vector<int64_t> offsets_of(Counts counts);

namespace law {

int64_t all_gather(Counts counts, int rank, int64_t element_bytes);
int64_t reduce_scatter(Counts counts, int rank, int64_t element_bytes);
int64_t all_reduce(int64_t numel, int n, int rank, int64_t element_bytes);
int64_t all_to_all(Counts send_counts, int rank, int64_t element_bytes);
int64_t broadcast(int64_t numel, int n, int rank, int root, int64_t element_bytes);

}  // namespace law
}  // namespace colossal::comm
