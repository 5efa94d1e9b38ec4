// How fast one rank of a job computes and communicates on a cluster: the seconds of each recorded
// operator, call and message, by the formulas of step_time.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/cluster_specification.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// The ranks of a group, as far as the time of its calls depends on them.
struct GroupPlace {
  int64_t size = 1;  // number of ranks
  int64_t here = 1;  // number of these that are on the host of the rank
};

class RankRates {
 public:
  // `cluster` must outlive this. The functions below throw ConfigError if it lacks the rate that
  // they need; the message names the key.
  RankRates(const ClusterSpecification& cluster, const Job& job);

  double seconds_of(const Operator& made) const;
  // Returns the time in which an update reads and writes this many bytes of tensors of one type.
  double update_seconds(int64_t bytes, at::ScalarType type) const;
  // Returns the time of a call, from the moment when all ranks have made it. law_bytes: what this
  // rank sends.
  double call_seconds(comm::Operation operation, int64_t law_bytes, const GroupPlace& group) const;
  double message_seconds(int64_t bytes, int from, int to) const;
  double tier_seconds(memory::Tier tier, int64_t bytes) const;

  // Returns the place of a group with these global ranks, one of which is `rank`.
  GroupPlace place_of(const std::vector<int>& ranks, int rank) const;
  double overlap() const { return cluster_.links.overlap; }
  // Returns the threads of the host's ranks for each of its cores, at least 1.
  double crowding() const { return crowding_; }

 private:
  double shares_of_network(comm::Operation operation, const GroupPlace& group) const;
  std::pair<std::string, const ComputeRates&> rates_of(at::ScalarType type) const;
  double elements(const std::string& name, const ComputeRates& rates) const;

  const ClusterSpecification& cluster_;
  int64_t local_ranks_ = 1;
  double crowding_ = 1;  // threads of the host's ranks for each of its cores, if more than 1
  double cores_ = 1;     // cores that a rank has, or 1 GPU
};

}  // namespace colossal::plan
