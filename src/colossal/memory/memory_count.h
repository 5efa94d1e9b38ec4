// Counts the memory of the tensors that this thread allocates while a MemoryCount exists, by kind.
// Tensors that autograd keeps for the backward pass count as activations, buffers of communication
// calls as communication, unless they already count as another kind (MemoryLedger::mark()).
#pragma once

#include <utility>

#include "colossal/comm/call_listener.h"
#include "colossal/comm/ledger.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/memory/saved_tensors.h"

namespace colossal::memory {

class MemoryCount final : private comm::CallListener {
 public:
  // calls: the ledger of the rank's world, whose only listener this becomes; must outlive this.
  // device: the device type whose memory is counted, CPU or meta. next: a listener whose issued()
  // is called after this one's; may be null. Calls install_allocators(). Destroy on the
  // constructing thread.
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
