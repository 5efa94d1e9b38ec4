// All ranks of a job, and the connections between them. A World makes Groups. It is passed
// explicitly, so several worlds may exist in one process (in tests, ranks are threads).
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

// Pairs of a setting's name and its value as readable text.
using Settings = std::vector<std::pair<std::string, std::string>>;

class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* backend() const = 0;  // as for a group of all ranks
  // The device on which this rank computes: its own GPU with NCCL, otherwise the CPU.
  virtual c10::Device device() const { return c10::kCPU; }

  // Makes a group of the global ranks `ranks`, in this order; `ranks` must contain this rank. axis:
  // the group's name in the ledger and in errors. Collective over these ranks: all call it with the
  // same arguments, in the same order as their other groups.
  virtual Group group(const std::string& axis, const std::vector<int>& ranks) = 0;
  // Like group(), for tensors in host memory even if device() is a GPU: its calls do not wait for
  // the GPU, and the GPU does not wait for them.
  virtual Group host_group(const std::string& axis, const std::vector<int>& ranks) {
    return group(axis, ranks);
  }

  // This rank's ledger, shared by all its groups.
  Ledger& ledger() { return *ledger_; }

  // Makes every running and later collective of this world throw a CommError with `why` on this
  // rank; peers see that this rank is lost. Called when this rank fails, so that none of its
  // threads keeps waiting.
  virtual void abort(const std::string& why) = 0;

 protected:
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
};

// Returns the device of a single-rank job: the first GPU if `backend` is "nccl", or if it is "auto"
// and a GPU is available; otherwise the CPU. Throws ConfigError if "nccl" finds no GPU, and for
// unknown backends.
c10::Device device_alone(const std::string& backend);

// Returns the number of GPUs that this process can use; 0 in a build without NCCL.
int num_gpus();

// Makes a world of one rank; all its groups have size 1.
std::unique_ptr<World> single_world(c10::Device device = c10::kCPU);

// Makes one world per rank, for ranks that are threads of this process. The ledger's wire column
// counts copies between the ranks' memory.
std::vector<std::unique_ptr<World>> local_worlds(int size, std::chrono::milliseconds timeout);

// Makes the world of rank `rank` in a dry run of `size` ranks, of which only this one exists. Calls
// are booked in the ledger's column `law` and leave all tensors unchanged. Tensors may be on device
// meta.
std::unique_ptr<World> dry_world(int rank, int size);

// Connects this rank with the other ranks of a job. `backend` is "shm" (shared memory of one host),
// "gloo" (TCP), "nccl" (GPUs) or "auto": nccl if it is built in and each rank has a GPU, otherwise
// shm within a host and gloo between hosts. All ranks must have the same `settings`; otherwise each
// rank throws a ConfigError that names a rank that differs from rank 0, the first setting that
// differs, and both values. Throws CommError naming the address if the other ranks do not arrive
// within `timeout`. Gloo needs broken pipes to be errors, not signals: if SIGPIPE has its default
// action, the process ignores it from then on.
std::unique_ptr<World> connect(const Rendezvous& rendezvous, const std::string& backend,
                               std::chrono::milliseconds timeout, const Settings& settings = {});

}  // namespace colossal::comm
