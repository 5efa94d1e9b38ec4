// Tensors that all ranks of a group can read. A region is memory that every rank maps, with one
// tensor of each rank, in rank order.
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

// Thread-safe: a tensor may be released on any thread, also after the group is gone.
class SharedRegions : public std::enable_shared_from_this<SharedRegions> {
 public:
  // The position of a rank's tensor, as ranks send it to each other.
  struct Place {
    uint64_t region = 0;  // from 1, in order of creation; 0: in no region
    int64_t offset = 0;   // in bytes, within the rank's part of the region
    bool operator==(const Place&) const = default;
  };
  // A region as mapped in this process.
  struct Found {
    Place place;
    std::byte* memory;  // start of the region
    int64_t stride;     // bytes per rank
    std::byte* of(int rank, int64_t offset) const { return memory + rank * stride + offset; }
  };

  // Returns a region's bytes per rank if each rank needs `bytes`: rounded up to whole pages.
  static int64_t stride_for(int64_t bytes);

  // Adds the group's next region, with `stride` bytes per rank. All ranks must add regions in the
  // same order. rank: this rank. Returns this rank's part; the region stays mapped in this process
  // until that part is released. Other ranks' mappings are independent of this.
  c10::DataPtr add(SharedMemory memory, int64_t stride, int rank);

  // Returns the region that contains a tensor of this rank; nullopt if none does.
  std::optional<Found> find(const at::Tensor& tensor) const;

 private:
  struct Held;

  mutable std::mutex mutex_;
  uint64_t made_ = 0;
  std::map<const std::byte*, Found> regions_;  // by the start of this rank's part
};

}  // namespace colossal::comm
