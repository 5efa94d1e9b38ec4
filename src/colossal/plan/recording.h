// A recording of one rank: the operators, collectives and changes of memory, in order, of a program
// that ran for real or dry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/comm/call.h"
#include "colossal/memory/memory_ledger.h"

namespace colossal::plan {

using Shape = std::vector<int64_t>;

// An operator of LibTorch's dispatcher, one of ours or theirs, as the program calls it: operators
// that it calls in turn are part of it.
struct Operator {
  std::string name;                    // "aten::mm.out", "colossal::attention"
  std::vector<Shape> inputs, outputs;  // of tensors
  double flops = 0;
  int64_t memory_changes = 0;  // entries of Recording::memory before it
};

struct Collective {
  comm::Operation operation = comm::Operation::barrier;
  comm::Reason reason = comm::Reason::control;
  std::string axis;
  size_t ranks = 0;       // of the group, global: index in rank_lists
  size_t partners = 0;    // those with which this rank exchanges: index in rank_lists
  int64_t law_bytes = 0;  // sent
  int64_t operators = 0;  // before it
  int64_t memory_changes = 0;
};

struct Recording {
  std::vector<Operator> operators;
  std::vector<Collective> collectives;
  std::vector<std::vector<int>> rank_lists;  // each once
  std::vector<memory::MemoryChange> memory;
  memory::BytesByKind at_peak;
};

}  // namespace colossal::plan
