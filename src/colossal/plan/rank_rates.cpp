#include "colossal/plan/rank_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "colossal/base/error.h"

namespace colossal::plan {
namespace {

// Bytes that the cross-entropy of a logit reads and writes, if device.logits is not given.
constexpr double kBytesOfLogit = 12;

double required(const std::optional<double>& rate, const std::string& key, const char* what) {
  if (rate) return *rate;
  throw ConfigError(
      fmt::format("the cluster file has no {}, and the step {}; give this rate, which "
                  "`colossal check --cluster=FILE` measures on a machine",
                  key, what));
}

}  // namespace

RankRates::RankRates(const ClusterSpecification& cluster, const Job& job) : cluster_(cluster) {
  local_ranks_ = cluster.local_ranks(job.strategy.world_size());
  if (cluster.on_gpus()) return;
  const auto threads = static_cast<double>(local_ranks_ * job.threads);
  crowding_ = std::max(1.0, threads / static_cast<double>(cluster.hosts.cores));
  cores_ = job.threads / crowding_;
}

double RankRates::seconds_of(const Operator& made) const {
  const OperatorWork& work = made.work;
  if (work.kind == OperatorKind::other && made.bytes == 0) return 0;
  const double overhead = cluster_.device.operator_seconds * crowding_;
  const auto& [name, rates] = rates_of(made.type);
  if (work.kind == OperatorKind::other) {
    return overhead + static_cast<double>(made.bytes) / (elements(name, rates) * cores_);
  }
  const double of_logits =
      work.logits == 0
          ? 0
          : work.logits / cluster_.device.logits.value_or(elements(name, rates) / kBytesOfLogit);
  if (work.flops == 0) return overhead + of_logits / cores_;
  const double products = required(rates.products, name + ".products", "multiplies matrices");
  if (work.kind == OperatorKind::product) {
    const auto side = static_cast<double>(work.narrowest);
    const double rate = products * side / (side + cluster_.device.half_rate_size);
    return overhead + work.flops / rate / cores_ + of_logits / cores_;
  }
  const auto& attention =
      work.kind == OperatorKind::attention ? rates.attention : rates.attention_backward;
  return overhead + work.flops / (attention.value_or(products / 2) * cores_);
}

double RankRates::update_seconds(int64_t bytes, at::ScalarType type) const {
  if (bytes == 0) return 0;
  const auto& [name, rates] = rates_of(type);
  return static_cast<double>(bytes) / (elements(name, rates) * cores_);
}

double RankRates::call_seconds(comm::Operation operation, int64_t law_bytes,
                               const GroupPlace& group) const {
  const double steps = std::bit_width(static_cast<uint64_t>(group.size - 1));
  const auto bytes = static_cast<double>(law_bytes);
  double seconds = 0;
  if (group.here > 1) {
    seconds = crowding_ * bytes /
              required(cluster_.links.bandwidth, "links.bandwidth",
                       "communicates between the ranks of a host");
  }
  if (group.here == group.size) {
    return seconds + crowding_ * steps *
                         required(cluster_.links.latency, "links.latency",
                                  "communicates between the ranks of a host");
  }
  const char* const what = "communicates between hosts";
  const double network =
      required(cluster_.links.network_bandwidth, "links.network_bandwidth", what);
  return std::max(seconds, bytes * shares_of_network(operation, group) / network) +
         steps * required(cluster_.links.network_latency, "links.network_latency", what);
}

double RankRates::message_seconds(int64_t bytes, int from, int to) const {
  return call_seconds(comm::Operation::send, bytes, place_of({from, to}, from));
}

double RankRates::tier_seconds(memory::Tier tier, int64_t bytes) const {
  if (bytes == 0) return 0;
  const bool host = tier == memory::Tier::host;
  return crowding_ * static_cast<double>(bytes) /
         required(host ? cluster_.links.host_bandwidth : cluster_.links.nvme_bandwidth,
                  host ? "links.host_bandwidth" : "links.nvme_bandwidth", "offloads tensors");
}

GroupPlace RankRates::place_of(const std::vector<int>& ranks, int rank) const {
  const int64_t host = rank / local_ranks_;
  return {std::ssize(ranks),
          std::ranges::count_if(ranks, [&](int r) { return r / local_ranks_ == host; })};
}

// Returns the bytes that a host sends to other hosts, as a multiple of the law's bytes of a call.
// All groups of the host make such a call at the same time. In a reduction, a gather or a ring, a
// group sends the law's bytes once out of a host; in other calls each rank does, as far as its
// partners are on other hosts.
double RankRates::shares_of_network(comm::Operation operation, const GroupPlace& group) const {
  const auto local = static_cast<double>(local_ranks_);
  if (operation == comm::Operation::send) return local;
  if (operation != comm::Operation::all_to_all) return local / static_cast<double>(group.here);
  return local * static_cast<double>(group.size - group.here) / static_cast<double>(group.size - 1);
}

std::pair<std::string, const ComputeRates&> RankRates::rates_of(at::ScalarType type) const {
  if (type == at::kDouble) return {"fp64", cluster_.fp64};
  if (type == at::kBFloat16 || type == at::kHalf) return {"bf16", cluster_.bf16};
  return {"fp32", cluster_.fp32};
}

// Without a rate of the type, that of another type: it is a rate of bytes.
double RankRates::elements(const std::string& name, const ComputeRates& rates) const {
  for (const ComputeRates* const of : {&rates, &cluster_.fp32, &cluster_.bf16, &cluster_.fp64}) {
    if (of->elements) return *of->elements;
  }
  return required(std::nullopt, name + ".elements", "has operators that are no products");
}

}  // namespace colossal::plan
