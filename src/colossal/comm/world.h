// The World: all ranks of a job, as one rank sees them. Each rank makes its World once, usually
// with connect(), and makes Groups (group.h) from it to communicate. There is no global World, so
// several may exist in one process; in tests, ranks are threads.
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

// How ranks communicate and where they compute: `parallel.backend` and `parallel.device`.
struct WorldKind {
  // "shm"   shared memory; all ranks must be on one host
  // "gloo"  TCP
  // "nccl"  NCCL; each rank uses its own GPU
  // "auto"  NCCL if the ranks compute on GPUs and each has its own; otherwise shared memory within
  //         a host, and TCP between hosts
  std::string backend = "auto";
  // "cpu"
  // "gpu"   GPUs. If a host has more ranks than GPUs, ranks share them. Unless the ranks
  //         communicate over NCCL, each call copies its tensors to the host and back.
  // "auto"  GPUs if backend is "nccl", or if backend is "auto" and each rank has a GPU of its own;
  //         otherwise the CPU
  std::string device = "auto";

  // Returns whether the ranks compute on GPUs. own_gpus: whether each rank has a GPU of its own.
  bool computes_on_gpus(bool own_gpus) const;
};

class World {
 public:
  // ledger: books the traffic of all groups of the world.
  explicit World(std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>())
      : ledger_(std::move(ledger)) {}
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  virtual int rank() const = 0;  // this rank's global number
  virtual int size() const = 0;  // number of ranks of the job
  // Returns how the ranks communicate, as Group::backend() does for a group of all ranks: "single"
  // (one rank), "local", "shm", "gloo", "shm+gloo" (several hosts), "nccl" or "dry".
  virtual const char* backend() const = 0;
  // The device on which this rank computes. The default is the CPU.
  virtual c10::Device device() const { return c10::kCPU; }

  // Makes a group of the global ranks `ranks`, in this order. `ranks` must contain this rank, and
  // no rank twice. axis: the group's name in the ledger and in errors. Collective: all of `ranks`
  // call it with the same arguments. Ranks that share several groups must make them in the same
  // order. Not thread-safe. Throws CommError if the ranks cannot connect to each other within the
  // timeout.
  virtual Group group(const std::string& axis, const std::vector<int>& ranks) = 0;
  // Like group(), for tensors in host memory even if device() is a GPU. The calls of the returned
  // group do not wait for the GPU, and the GPU does not wait for them.
  virtual Group host_group(const std::string& axis, const std::vector<int>& ranks) {
    return group(axis, ranks);
  }

  // This rank's ledger, shared by all its groups.
  Ledger& ledger() { return *ledger_; }
  const std::shared_ptr<Ledger>& shared_ledger() const { return ledger_; }

  // Makes every running and later call of this rank, in all groups, throw a CommError with the
  // reason `why`. Peers find that this rank is lost. Called when this rank fails, so that none of
  // its threads keeps waiting. May be called from any thread.
  virtual void abort(const std::string& why) = 0;

 protected:
  std::shared_ptr<Ledger> ledger_;
};

// Returns the device of a job of one rank: the first GPU or the CPU. Throws ConfigError if backend
// or device is unknown, if they contradict each other, or if they ask for a GPU and there is none.
c10::Device device_alone(const WorldKind& kind);

// Makes the world of a job of one rank, which computes on `device`.
std::unique_ptr<World> single_world(c10::Device device = c10::kCPU);

// Makes the worlds of `size` ranks that are threads of this process; world i is for rank i. The
// ledger's column `wire` counts copies between the ranks' memory. timeout: time limit of each call.
std::vector<std::unique_ptr<World>> local_worlds(int size, std::chrono::milliseconds timeout);

// Makes the world of rank `rank` in a dry run of `size` ranks, whose other ranks do not exist.
// Calls book the ledger's column `law`, move nothing and leave all tensors unchanged. Tensors may
// be on the meta device.
std::unique_ptr<World> dry_world(int rank, int size);

// Connects this rank with the other ranks of a job and returns its world. Collective. timeout: time
// limit for the other ranks to arrive, and of each call. settings: must be equal on all ranks.
//
// Throws ConfigError if `kind` is not possible for these ranks, if the rank or the port of
// `rendezvous` is out of range, or if settings differ; see require_agreement() (agreement.h).
// Throws CommError with the store's address if other ranks do not arrive in time. With Gloo, this
// process ignores SIGPIPE from then on if SIGPIPE has its default action, because Gloo needs an
// error for a closed connection.
std::unique_ptr<World> connect(const Rendezvous& rendezvous, const WorldKind& kind,
                               std::chrono::milliseconds timeout, const Settings& settings = {});

}  // namespace colossal::comm
