// Counts the bytes that a rank sends, by mesh axis and by reason, in two columns:
//   law   what the algorithm must send, computed from the call (docs/laws.md)
//   wire  what was sent, counted by the backends: sends, and copies into memory that peers read.
//         NCCL's sends cannot be counted: its backend assumes what the algorithm must send
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace colossal::comm {

class CallListener;

// Why bytes are sent. reason_name() returns the names used in ledgers, metrics and reports.
enum class Reason {
  gradient,    // gradients of parameters, summed over the ranks that hold them
  parameter,   // weights: shards gathered by ZeRO, initial values broadcast
  tensor,      // activations, their gradients, panels and statistics of tensor parallelism
  sequence,    // queries, keys, values, results and their gradients of sequence parallelism
  expert,      // rows routed to experts, copied experts, statistics of routers
  stage,       // activations and gradients between pipeline stages
  control,     // small messages in which ranks agree, e.g. before an update
  data,        // samples that ranks make for each other, e.g. completions
  checkpoint,  // shards rearranged for files, outcomes of writes
  rendezvous,  // shared_empty(), which books nothing
  metrics,     // figures for metrics and timelines
};
const char* reason_name(Reason reason);

// What was booked under a Ledger::Key.
struct Traffic {
  int64_t calls = 0;
  int64_t law_bytes = 0;
  int64_t wire_bytes = 0;
  bool operator==(const Traffic&) const = default;
};

// Thread-safe: collectives may run on a communication thread.
class Ledger {
 public:
  struct Key {
    std::string axis;  // "dp", "tp", ..., or joined: "dp+sp"
    Reason reason;
    auto operator<=>(const Key&) const = default;
  };

  // book() counts one call and its law bytes. book_wire() adds wire bytes and counts no call.
  void book(const std::string& axis, Reason reason, int64_t law_bytes);
  void book_wire(const std::string& axis, Reason reason, int64_t bytes);

  std::map<Key, Traffic> entries() const;
  // Returns, for each axis, the sum over all reasons except checkpoint and rendezvous: the metric
  // `bytes_sent`.
  std::map<std::string, Traffic> by_axis() const;
  void reset();

  // Sets the listener of the calls of all groups that share this ledger. Set it before the first
  // call; it must outlive the last call. Null: no listener.
  void set_listener(CallListener* listener) { listener_ = listener; }
  CallListener* listener() const { return listener_; }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Traffic> entries_;
  CallListener* listener_ = nullptr;
};

}  // namespace colossal::comm
