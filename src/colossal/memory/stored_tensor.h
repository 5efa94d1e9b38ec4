// A flat tensor that is stored in a tier, and transfers of its elements to where they are used.
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

// Length in elements of a span, the unit of transfers (4 MiB in fp32). A tensor's elements are
// divided into spans of this length; only the last span may be shorter.
inline constexpr int64_t kSpan = int64_t{1} << 20;

// Holds the range covers() of the elements of its owner, such as a chunk. All element indices count
// in the owner. `pools` must outlive this. Not thread-safe.
class StoredTensor {
 public:
  // Allocates memory of the device or the host, filled with zeros, or reserves a region of the NVMe
  // file of `pools`, which reads as zeros until written. Call before TierPools::open_swap() for
  // NVMe.
  StoredTensor(Tier tier, Range covers, at::ScalarType type, MemoryKind kind, TierPools& pools);
  // Uses `memory`, [covers], which is on the device.
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

  // Returns a view of the elements `range`, where they are stored. Not for tensors on NVMe.
  at::Tensor memory(Range range) const;

  // Read and write elements, waiting for the disk. For initial values, checkpoints and error
  // messages. read() returns a view if the tensor is in memory, else a copy on the device. write()
  // converts to the tensor's dtype. The traffic is not counted. Throw IoError.
  at::Tensor read(Range range) const;
  void write(int64_t begin, const at::Tensor& values);

 private:
  friend class TierTransfer;
  int64_t file_offset(int64_t element) const {
    return offset_ + (element - covers_.begin) * element_bytes();
  }
  Range span_of(int64_t element) const;

  Tier tier_;
  Range covers_;
  at::ScalarType type_;
  MemoryKind kind_;
  TierPools& pools_;
  at::Tensor memory_;  // [covers]; undefined if on NVMe
  int64_t offset_ = 0;
  std::vector<bool> written_;  // for NVMe: whether each span was written
};

// Divides `range` at the span borders of a tensor whose covers() begin at `origin`.
std::vector<Range> spans_of(Range range, int64_t origin);

// A transfer of the elements `range` of a tensor to `place`, the device or the host, and back.
// tensor() is a view if the tensor is stored at `place`, else a copy. For tensors on NVMe, `range`
// must consist of whole spans. The tensor must outlive this.
class TierTransfer {
 public:
  // read: never moved back. write: not read first, so tensor() begins with arbitrary contents.
  // update: read, then moved back.
  enum class Access { read, write, update };
  // Whether this counts its bytes in TierPools::traffic(). no: the caller counts them, if at all.
  enum class Counted { yes, no };
  // Begins the transfer.
  TierTransfer(StoredTensor& tensor, Range range, Tier place, Access access, Counted counted);
  ~TierTransfer();
  TierTransfer(TierTransfer&&) = default;
  TierTransfer(const TierTransfer&) = delete;
  TierTransfer& operator=(const TierTransfer&) = delete;

  Range range() const { return range_; }
  // Waits for the elements and returns them, [range]. Throws IoError if the disk fails or returns
  // other bytes than were written.
  const at::Tensor& tensor();
  // Begins to move the elements back, unless they were only read. tensor() must not be used
  // afterwards.
  void leave();
  // Waits for what is in progress in either direction. Throws IoError. The destructor waits too,
  // but ignores errors.
  void finish();

 private:
  void bring();
  void count(bool to) const;  // counts the traffic to the tensor's tier, or else from it
  void for_each_span(const std::function<void(size_t index, int64_t offset,
                                              std::span<std::byte> bytes)>& visit) const;

  StoredTensor* tensor_;
  Range range_;
  Tier place_;
  Access access_;
  Counted counted_;
  at::Tensor here_;
  at::Tensor staging_;  // on the host, if the tensor is on NVMe
  bool arrived_ = true;
  std::vector<io::SwapFile::Transfer> transfers_;
};

// Writes to NVMe in progress that the caller does not wait for. At most 8 transfers, because each
// keeps its elements in memory until it is finished.
class WritesUnderWay {
 public:
  // Adds a transfer after its leave(). If there are then more than 8, waits for the oldest; throws
  // IoError if that one failed.
  void add(TierTransfer write);
  void finish();  // waits for all; throws IoError

 private:
  std::deque<TierTransfer> writes_;
};

}  // namespace colossal::memory
