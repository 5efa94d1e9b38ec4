// All ranks of a job and what joins them. A World makes Groups; it is passed explicitly, so several
// worlds may live in one process (ranks as threads, in tests).
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/comm/rendezvous.h"

namespace colossal::comm {

// Names and values, as people read them.
using Settings = std::vector<std::pair<std::string, std::string>>;

class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* backend() const = 0;
  // Where this rank computes: a GPU of its own with NCCL, else the CPU.
  virtual c10::Device device() const { return c10::kCPU; }

  // A group of these global ranks, in this order; `ranks` must contain this rank. Collective over
  // them: all call it with the same arguments, in the same order as their other groups.
  virtual Group group(const std::string& axis, const std::vector<int>& ranks) = 0;
  // The same, of tensors in the host's memory wherever this rank computes: its messages wait for no
  // device, and no device for them.
  virtual Group host_group(const std::string& axis, const std::vector<int>& ranks) {
    return group(axis, ranks);
  }

  // This rank's ledger, shared by all its groups.
  Ledger& ledger() { return *ledger_; }

  // Ends every collective of this world, under way or to come, with a CommError that gives
  // `why`; local to this rank (its peers see a lost connection). Called when a rank fails, so that
  // no thread is left waiting.
  virtual void abort(const std::string& why) = 0;

 protected:
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
};

// Returns the device of a rank that runs alone: the first GPU with backend "nccl", or with "auto"
// if there is one; else the CPU. Throws ConfigError for a GPU that is not there and for unknown
// names.
c10::Device device_alone(const std::string& backend);

// GPUs that ranks of this process can compute on; 0 in a build without NCCL.
int num_gpus();

// One rank alone: groups of size 1.
std::unique_ptr<World> single_world(c10::Device device = c10::kCPU);

// Ranks as threads of this process; one world for each. Copies into the peers' memory are the wire.
std::vector<std::unique_ptr<World>> local_worlds(int size, std::chrono::milliseconds timeout);

// Makes rank `rank` of `size` ranks, of which no other exists. Calls are booked (law) and move
// nothing, and sums leave their tensors as they are. Tensors may be on meta.
std::unique_ptr<World> dry_world(int rank, int size);

// Connects this rank with the others of a job. `backend` is "shm" (shared memory of one host),
// "gloo" (TCP), "nccl" (GPUs) or "auto": nccl if it is built in and each rank has a GPU, else shm
// within a host and gloo between hosts. All ranks must have the same `settings`: if two differ,
// each rank throws a ConfigError that names the ranks, the first setting that differs, and both
// values. Throws CommError naming the address if the others do not arrive within `timeout`. Gloo
// needs broken pipes to be errors, not signals: where SIGPIPE has its default action, the process
// ignores it from then on.
std::unique_ptr<World> connect(const Rendezvous& rendezvous, const std::string& backend,
                               std::chrono::milliseconds timeout, const Settings& settings = {});

}  // namespace colossal::comm
