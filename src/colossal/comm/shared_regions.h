// Tensors of a group that all its ranks can read. A region holds one of each rank, in rank order,
// in memory that every rank maps.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "colossal/comm/shared_memory.h"

namespace colossal::comm {

// Thread-safe: a tensor may be released anywhere, also after the group is gone.
class SharedRegions : public std::enable_shared_from_this<SharedRegions> {
 public:
  // Where a rank's tensor lies: what ranks tell each other.
  struct Place {
    uint64_t region = 0;  // counted from 1 in the order in which they were made; 0: in none
    int64_t offset = 0;   // in bytes, within what the rank has of the region
    bool operator==(const Place&) const = default;
  };
  // A region as this process sees it.
  struct Found {
    Place place;
    std::byte* memory;  // of the region
    int64_t stride;     // bytes of each rank
    std::byte* of(int rank, int64_t offset) const { return memory + rank * stride + offset; }
  };

  // Returns the bytes of a region that gives each rank `bytes`, from a page of its own.
  static int64_t stride_for(int64_t bytes);

  // Adds the group's next region, with `stride` bytes a rank; all ranks call it alike. Returns the
  // part of `rank`, which is this one. The region stays mapped here until that part is released,
  // which takes nothing from ranks that have not released theirs.
  c10::DataPtr add(SharedMemory memory, int64_t stride, int rank);

  // Where a tensor of this rank lies, if in a region.
  std::optional<Found> find(const at::Tensor& tensor) const;

 private:
  struct Held;

  mutable std::mutex mutex_;
  uint64_t made_ = 0;
  std::map<const std::byte*, Found> regions_;  // by where this rank's bytes begin
};

}  // namespace colossal::comm
