// A recording of one rank of a real run or a dry run: its operators, collectives and memory
// changes, each in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/comm/call.h"
#include "colossal/memory/memory_ledger.h"

namespace colossal::plan {

using Shape = std::vector<int64_t>;

// A call of an operator of LibTorch's dispatcher, defined by Colossal or by LibTorch. Operators
// that it calls in turn are not recorded separately.
struct Operator {
  std::string name;                    // "aten::mm.out", "colossal::attention"
  std::vector<Shape> inputs, outputs;  // of its tensors
  double flops = 0;                    // operator_flops()
  int64_t memory_changes = 0;          // number of entries of Recording::memory before it
};

// A call of a collective, or of a point-to-point exchange.
struct Collective {
  comm::Operation operation = comm::Operation::barrier;
  comm::Reason reason = comm::Reason::control;
  std::string axis;
  size_t ranks = 0;       // global ranks of the group, as an index of rank_lists
  size_t partners = 0;    // ranks with which this rank exchanges bytes, as an index of rank_lists
  int64_t law_bytes = 0;  // bytes sent by this rank, by the law
  int64_t operators = 0;  // number of entries of Recording::operators before it
  int64_t memory_changes = 0;  // number of entries of Recording::memory before it
};

struct Recording {
  std::vector<Operator> operators;
  std::vector<Collective> collectives;
  std::vector<std::vector<int>> rank_lists;  // without duplicates
  std::vector<memory::MemoryChange> memory;
  memory::BytesByKind at_peak;  // bytes when their total was largest
};

}  // namespace colossal::plan
