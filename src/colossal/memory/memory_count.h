// Counts the memory of a rank's program while this exists: the tensors that this thread allocates,
// by kind. Tensors that autograd saves count as activations, buffers of collectives as
// communication.
#pragma once

#include <utility>

#include "colossal/comm/call_listener.h"
#include "colossal/comm/ledger.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/memory/saved_tensors.h"

namespace colossal::memory {

class MemoryCount final : private comm::CallListener {
 public:
  // calls: that of the rank's world; must outlive this. device: the device type whose memory is
  // counted, CPU or meta. next: called after this with each collective; may be null.
  MemoryCount(comm::Ledger& calls, c10::DeviceType device, comm::CallListener* next = nullptr);
  ~MemoryCount() override;
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;

  MemoryLedger& ledger() { return ledger_; }

 private:
  void issued(const comm::IssuedCall& call) override;
  c10::DataPtr made(c10::DataPtr memory, int64_t bytes) override {
    return counted(std::move(memory), bytes);
  }

  comm::Ledger& calls_;
  comm::CallListener* next_;
  MemoryLedger ledger_;
  MemoryScope counting_;
  SavedTensorObserver watching_;
};

}  // namespace colossal::memory
