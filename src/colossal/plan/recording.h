// A recording of one rank: the operators, collectives and memory changes, in order, of a real
// program or a dry run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/comm/call.h"
#include "colossal/memory/memory_ledger.h"

namespace colossal::plan {

using Shape = std::vector<int64_t>;

// An operator of LibTorch's dispatcher, one of Colossal's or of LibTorch's, that the program calls.
// Operators called inside it are not recorded separately.
struct Operator {
  std::string name;                    // "aten::mm.out", "colossal::attention"
  std::vector<Shape> inputs, outputs;  // shapes of tensors
  double flops = 0;
  int64_t memory_changes = 0;  // number of entries of Recording::memory before it
};

struct Collective {
  comm::Operation operation = comm::Operation::barrier;
  comm::Reason reason = comm::Reason::control;
  std::string axis;
  size_t ranks = 0;       // global ranks of the group, as an index of rank_lists
  size_t partners = 0;    // ranks with which this rank exchanges bytes, as an index of rank_lists
  int64_t law_bytes = 0;  // bytes sent by this rank, by the law
  int64_t operators = 0;  // number of operators before it
  int64_t memory_changes = 0;
};

struct Recording {
  std::vector<Operator> operators;
  std::vector<Collective> collectives;
  std::vector<std::vector<int>> rank_lists;  // without duplicates
  std::vector<memory::MemoryChange> memory;
  memory::BytesByKind at_peak;
};

}  // namespace colossal::plan
