// StoredTensor: a flat tensor that is stored in a tier (device, host or NVMe). TierTransfer: moves
// some of its elements to the device or the host, where they are used, and back. Chunks store
// weights, masters, gradients and optimizer states in StoredTensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

// Length in elements of a span, the unit of transfers (4 MiB in fp32). The elements of a
// StoredTensor are divided into spans of this length, from its first element on; only the last span
// may be shorter.
inline constexpr int64_t kSpan = int64_t{1} << 20;

// Stores the elements covers() of a longer flat tensor, such as the buffer of a chunk. All
// functions name an element by its index in that longer tensor. `pools` must outlive this. Not
// thread-safe.
class StoredTensor {
 public:
  // Allocates memory on the device or the host, filled with zeros, or reserves a region of the NVMe
  // file of `pools`, which reads as zeros until it is written. A StoredTensor on NVMe must be
  // constructed before TierPools::open_swap(). kind: the kind under which memory and traffic are
  // counted.
  StoredTensor(Tier tier, Range covers, at::ScalarType type, MemoryKind kind, TierPools& pools);
  // Stores the elements in `memory`, [covers.size()], which is on the device.
  StoredTensor(const at::Tensor& memory, Range covers, MemoryKind kind, TierPools& pools);
  ~StoredTensor();
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;

  Tier tier() const { return tier_; }
  Range covers() const { return covers_; }
  MemoryKind kind() const { return kind_; }
  at::ScalarType type() const { return type_; }
  TierPools& pools() const { return pools_; }
  int64_t element_bytes() const { return static_cast<int64_t>(c10::elementSize(type_)); }
  int64_t bytes() const { return covers_.size() * element_bytes(); }

  // Returns a view of the elements `range` where they are stored, on the device or the host, after
  // the copies that copy_from_device() has begun. Throws InternalError if the tensor is on NVMe.
  at::Tensor memory(Range range) const;

  // Of a tensor on the host: begin to copy the elements `range` to or from a tensor on the device
  // (CopyStreams). A copy to the device sees what earlier copies from it have brought, if these
  // precede the current stream.
  Copy copy_to_device(Range range, const at::Tensor& to) const;
  Copy copy_from_device(Range range, const at::Tensor& from);

  // Read and write elements, and wait for the disk. Used for initial values, checkpoints and error
  // messages: the traffic is not counted. read() returns the elements `range`: a view if the tensor
  // is in memory, a copy on the device if it is on NVMe. write() converts `values`, [n], to the
  // tensor's dtype, and stores them from element `begin` on. Throw IoError.
  at::Tensor read(Range range) const;
  void write(int64_t begin, const at::Tensor& values);

 private:
  friend class TierTransfer;
  int64_t file_offset(int64_t element) const {  // in bytes
    return offset_ + (element - covers_.begin) * element_bytes();
  }
  Range span_of(int64_t element) const;  // the whole span that has `element`
  at::Tensor view(Range range) const;    // memory(), without waiting

  Tier tier_;
  Range covers_;
  at::ScalarType type_;
  MemoryKind kind_;
  TierPools& pools_;
  at::Tensor memory_;          // [covers_.size()]; undefined if on NVMe
  Copy arriving_;              // if on the host: the last copy_from_device()
  int64_t offset_ = 0;         // if on NVMe: where the region begins in the file, in bytes
  std::vector<bool> written_;  // if on NVMe: whether each span was written
};

// Divides `range` at the borders of the spans of a StoredTensor whose covers() begin at `origin`.
// Returns the parts in ascending order.
std::vector<Range> spans_of(Range range, int64_t origin);

// A transfer of the elements `range` of a StoredTensor to `place`, the device or the host, and
// back. Use: construct; use tensor(); leave(); finish(). If the StoredTensor is stored at `place`,
// nothing is copied. For tensors on NVMe, `range` must consist of whole spans. The StoredTensor
// must outlive this.
class TierTransfer {
 public:
  enum class Access {
    read,   // the elements are read, and not moved back
    write,  // moved back, but not read: if tensor() is a copy, it begins with arbitrary contents
    update  // the elements are read, and moved back
  };
  // Whether this counts its bytes in TierPools::traffic(). no: the caller counts them, if at all.
  enum class Counted { yes, no };
  // Begins to read the elements, unless `access` is write. Reads from NVMe are asynchronous.
  TierTransfer(StoredTensor& tensor, Range range, Tier place, Access access, Counted counted);
  ~TierTransfer();
  TierTransfer(TierTransfer&&) = default;
  TierTransfer(const TierTransfer&) = delete;
  TierTransfer& operator=(const TierTransfer&) = delete;

  Range range() const { return range_; }
  // Waits for the elements and returns them at `place`, [range.size()]: a view if the StoredTensor
  // is stored there, else a copy. For elements that come to a GPU, the current stream waits instead
  // of the host. Throws IoError if the disk fails or returns other bytes than were
  // written.
  const at::Tensor& tensor();
  // Begins to move the elements back, unless Access is read, or tensor() was never called for
  // elements that are read from NVMe. Without leave(), changes to a copy are lost. tensor() must
  // not be used afterwards.
  void leave();
  // Waits for reads or writes of the file in progress; the current stream waits for copies from the
  // device. Throws IoError. The destructor does so, too, but ignores errors.
  void finish();

 private:
  void bring();  // begins to read the elements
  // Counts the traffic. to: from `place` to the StoredTensor; false: from it to `place`.
  void count(bool to) const;
  // Calls visit() for each span of the range: its index, its offset in the file, its bytes in
  // staging_.
  void for_each_span(const std::function<void(size_t index, int64_t offset,
                                              std::span<std::byte> bytes)>& visit) const;

  StoredTensor* tensor_;
  Range range_;
  Tier place_;
  Access access_;
  Counted counted_;
  at::Tensor here_;     // what tensor() returns
  at::Tensor staging_;  // the elements on the host, if the StoredTensor is on NVMe
  bool arrived_ = true;
  Copy arriving_;  // to `place`, if that or the StoredTensor is on the device
  Copy leaving_;   // to the StoredTensor, if it is on the host
  std::vector<io::SwapFile::Transfer> transfers_;  // reads or writes of the file in progress
};

// Writes to NVMe in progress for which the caller does not wait. Holds at most 8 transfers, because
// each keeps its elements in memory until it is finished.
class PendingWrites {
 public:
  // Adds a transfer after its leave(). If there are then more than 8 transfers, waits for the
  // oldest. Throws IoError if the oldest failed.
  void add(TierTransfer write);
  void finish();  // waits for all transfers; throws IoError if one failed

 private:
  std::deque<TierTransfer> writes_;
};

}  // namespace colossal::memory
