// The bookkeeping of ShmBackend for shared_empty() (group.h): where tensors lie that all ranks of a
// group can read. Each call of shared_empty() makes a region: shared memory that every rank of the
// group maps. A region consists of equal parts, one for each rank's tensor, in rank order.
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

// The regions of one group that are mapped in this process. Must be owned by a shared_ptr.
// Thread-safe: a tensor may be released on any thread, also after the group is gone.
class SharedRegions : public std::enable_shared_from_this<SharedRegions> {
 public:
  // The position of a tensor, in terms that are valid in all processes of the group.
  struct Place {
    uint64_t region = 0;  // number of the region, from 1 in order of creation; 0: in no region
    int64_t offset = 0;   // in bytes, within the part of the tensor's rank
    bool operator==(const Place&) const = default;
  };
  // The result of find(): a tensor's position, and its region as mapped in this process.
  struct Found {
    Place place;
    std::byte* memory;  // start of the region
    int64_t stride;     // bytes of each rank's part
    // Returns the address, in this process, of byte `offset` of the part of `rank`.
    std::byte* of(int rank, int64_t offset) const { return memory + rank * stride + offset; }
  };

  // Returns the size of each rank's part if each rank needs `bytes` bytes: rounded up to whole
  // pages of 4 KiB.
  static int64_t stride_for(int64_t bytes);

  // Adds the group's next region. All ranks must add regions in the same order. stride: bytes of
  // each rank's part. rank: this rank, within the group. Returns this rank's part. The region stays
  // mapped in this process until the returned part is released, whatever the other ranks do.
  c10::DataPtr add(SharedMemory memory, int64_t stride, int rank);

  // Returns the region whose part of this rank contains the start of `tensor`; nullopt if none.
  std::optional<Found> find(const at::Tensor& tensor) const;

 private:
  struct Held;  // owned by the DataPtr that add() returns

  mutable std::mutex mutex_;
  uint64_t made_ = 0;                          // number of regions added
  std::map<const std::byte*, Found> regions_;  // by the start of this rank's part
};

}  // namespace colossal::comm
