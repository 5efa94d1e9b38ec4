#include "colossal/comm/law.h"

namespace colossal::comm {

std::vector<int64_t> even_counts(int64_t numel, int n) {
  std::vector<int64_t> counts(n, numel / n);
  for (int64_t i = 0; i < numel % n; ++i) ++counts[i];
  return counts;
}

std::vector<int64_t> offsets_of(Counts counts) {
  std::vector<int64_t> offsets{0};
  for (int64_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

namespace law {

int64_t all_gather(Counts counts, int rank, int64_t element_bytes) {
  return (std::ssize(counts) - 1) * counts[rank] * element_bytes;
}

int64_t reduce_scatter(Counts counts, int rank, int64_t element_bytes) {
  return (total(counts) - counts[rank]) * element_bytes;
}

int64_t all_reduce(int64_t numel, int n, int rank, int64_t element_bytes) {
  const std::vector<int64_t> counts = even_counts(numel, n);
  return reduce_scatter(counts, rank, element_bytes) + all_gather(counts, rank, element_bytes);
}

int64_t all_to_all(Counts send_counts, int rank, int64_t element_bytes) {
  return (total(send_counts) - send_counts[rank]) * element_bytes;
}

int64_t broadcast(int64_t numel, int n, int rank, int root, int64_t element_bytes) {
  const bool last_in_chain = (rank + 1) % n == root;
  return last_in_chain ? 0 : numel * element_bytes;
}

}  // namespace law
}  // namespace colossal::comm
