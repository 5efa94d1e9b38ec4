// MemoryCount: counts the memory of all tensors that a thread allocates on the CPU or on meta, by
// kind. It cannot count memory on a GPU. Used in training on the CPU for the memory chart
// (StepMemory), and in dry runs to predict the memory of a rank.
#pragma once

#include <functional>
#include <utility>

#include "colossal/comm/call_listener.h"
#include "colossal/comm/ledger.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/memory/saved_tensors.h"

namespace colossal::memory {

// While this exists, the tensors that the constructing thread allocates are counted in ledger().
// Tensors that autograd saves for the backward pass count as MemoryKind::activations, buffers of
// communication calls as MemoryKind::communication, unless they already count as a kind other than
// MemoryKind::other (see MemoryLedger::mark()).
class MemoryCount final : private comm::CallListener {
 public:
  // calls: the ledger of the rank's communication calls; must outlive this. The constructor makes
  // this the ledger's one listener, in place of an earlier one; the destructor leaves none. device:
  // the device type whose memory is counted, CPU or meta. next: another listener, null: none. For
  // each communication call, next->issued() is called after this has counted the call's buffers;
  // next->when_waited_for() is called too.
  // next->made(), the notice of new shared memory, is never called. Also calls install_allocators()
  // (memory_ledger.h). Destroy this on the constructing thread.
  MemoryCount(comm::Ledger& calls, c10::DeviceType device, comm::CallListener* next = nullptr);
  ~MemoryCount() override;
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;

  MemoryLedger& ledger() { return ledger_; }

 private:
  void issued(const comm::IssuedCall& call) override;
  std::function<void()> when_waited_for() override {
    return next_ ? next_->when_waited_for() : nullptr;
  }
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
