// The machines of a cluster, and how fast they compute and communicate. With it, plans predict the
// time of a step (step_time.h). `colossal check --cluster=FILE` measures the machine on which it
// runs and writes a file; for other machines, write one by hand (docs/plan.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "colossal/base/config_schema.h"

namespace colossal::plan {

// The rates of a device with elements of one type: of a GPU, or of one core of a CPU while all
// cores of the host compute.
struct ComputeRates {
  std::optional<double> products;            // FLOP/s of large matrix products
  std::optional<double> attention;           // FLOP/s of the forward pass of attention
  std::optional<double> attention_backward;  // FLOP/s of its backward pass
  std::optional<double> elements;            // bytes/s that other operators read and write
};

struct ClusterSpecification {
  // The hosts, which are alike: rank r is on host r / ranks.
  struct {
    std::optional<int64_t> ranks;  // number of ranks on a host; unset: there is only one host
    int64_t cores = 0;  // number of cores that a host's ranks share; 0: ranks compute on GPUs
    std::optional<ByteSize> memory;  // of a GPU or, on the CPU, of a host
  } hosts;
  ComputeRates bf16, fp32, fp64;  // fp16 has the rates of bf16
  struct {
    double operator_seconds = 0;  // that an operator takes even if it computes nothing
    // A product of matrices whose smallest side has this size has half of the rate of large
    // products; with smallest side n, n / (n + half_rate_size) of that rate (step_time.h).
    double half_rate_size = 0;
    std::optional<double> logits;  // logits/s that a cross-entropy processes
  } device;
  struct {
    // Between the ranks of one host: what a call takes even if it sends nothing, in seconds, and
    // bytes/s that each rank sends.
    std::optional<double> latency, bandwidth;
    // The same between hosts; here the bytes/s are those of a host, which its ranks share.
    std::optional<double> network_latency, network_bandwidth;
    // Share of the time of an asynchronous call in which the ranks can compute as if there were no
    // call. On a CPU 0, because the ranks' cores copy and add the bytes.
    double overlap = 0;
    // bytes/s with which a rank copies between its device and the host, and to or from NVMe.
    std::optional<double> host_bandwidth, nvme_bandwidth;
  } links;

  // Returns the number of ranks on a host, of a job of this many ranks.
  int64_t local_ranks(int64_t ranks) const { return std::min(ranks, hosts.ranks.value_or(ranks)); }
  bool on_gpus() const { return hosts.cores == 0; }
};

// Declares the keys of a cluster file. Values are written to `cluster`, which must outlive
// `schema`.
void describe(ConfigSchema& schema, ClusterSpecification& cluster);

// Reads a cluster file. Throws ConfigError, which names the file, the line and the key.
ClusterSpecification read_cluster(const std::filesystem::path& path);

// Returns the specification as the text of a cluster file.
std::string cluster_file(const ClusterSpecification& cluster);

}  // namespace colossal::plan
