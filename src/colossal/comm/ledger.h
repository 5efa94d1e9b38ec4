// Counts the bytes that a rank sends, by group axis and by reason, in two columns:
//   law   the bytes that the call must send, computed from its arguments (docs/laws.md)
//   wire  the bytes that were sent, counted by the backend: messages, and data that peers read from
//         shared memory. NCCL's sends cannot be counted, so its backend books the law here.
// Each rank has one ledger for all its groups: World::ledger().
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace colossal::comm {

class CallListener;

// Why bytes are sent.
enum class Reason {
  gradient,    // gradients of parameters, summed over the ranks that hold them
  parameter,   // weights: shards gathered by ZeRO, initial values broadcast
  optimizer,   // sums over tensors, and matrices, that an optimizer needs whole
  tensor,      // activations, their gradients, panels and statistics of tensor parallelism
  sequence,    // queries, keys, values, results and their gradients of sequence parallelism
  expert,      // rows routed to experts, copied experts, statistics of routers
  stage,       // activations and gradients between pipeline stages
  control,     // small messages in which ranks agree, e.g. before an update
  data,        // samples that ranks make for each other, e.g. completions
  checkpoint,  // shards rearranged for files, outcomes of writes
  rendezvous,  // no bytes: names the calls of shared_empty() (group.h) in messages and profiles
  metrics,     // figures for metrics and timelines
};
// Returns the enumerator's name, such as "gradient", for metrics and reports.
const char* reason_name(Reason reason);

// What was booked under one Ledger::Key, or on one axis.
struct Traffic {
  int64_t calls = 0;  // does not count receive(), barrier() and shared_empty()
  int64_t law_bytes = 0;
  int64_t wire_bytes = 0;
  bool operator==(const Traffic&) const = default;
};

// Thread-safe, except for set_listener(): calls of groups may run on threads of their own.
class Ledger {
 public:
  struct Key {
    std::string axis;  // of the group: "dp", "tp", ...; of a group along two axes: "dp+sp"
    Reason reason;
    auto operator<=>(const Key&) const = default;
  };

  // Counts one call and adds its law bytes.
  void book(const std::string& axis, Reason reason, int64_t law_bytes);
  // Adds wire bytes. Counts no call.
  void book_wire(const std::string& axis, Reason reason, int64_t bytes);

  // Returns everything that was booked since the start or the last reset().
  std::map<Key, Traffic> entries() const;
  // Returns the sums of entries() over all reasons except checkpoint, by axis. The metric
  // `bytes_sent` of a step is the growth of law_bytes in the step.
  std::map<std::string, Traffic> by_axis() const;
  // Forgets all that was booked.
  void reset();

  // Sets the listener (call_listener.h) of the calls of all groups that share this ledger; null:
  // none. Do not call it while calls are being issued. The listener must outlive the calls.
  void set_listener(CallListener* listener) { listener_ = listener; }
  CallListener* listener() const { return listener_; }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Traffic> entries_;
  CallListener* listener_ = nullptr;
};

}  // namespace colossal::comm
