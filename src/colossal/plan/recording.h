// A recording of what one rank does in a real run or a dry run: its operators, collectives and
// memory changes, each in order. Recorder (recorder.h) makes recordings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/comm/call.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/plan/operator_work.h"

namespace colossal::plan {

using Shape = std::vector<int64_t>;  // sizes of a tensor

// A call of an operator of LibTorch's dispatcher, defined by LibTorch or by Colossal. Operators
// that the operator itself calls are not recorded separately.
struct Operator {
  std::string name;                    // "aten::mm.out", "colossal::attention"
  std::vector<Shape> inputs, outputs;  // shapes of its tensor arguments and results
  OperatorWork work;                   // result of work_of() (operator_work.h)
  // Type of the elements that it computes with: of its first tensor of floating-point numbers, or
  // of its first tensor if there is none.
  at::ScalarType type = at::ScalarType::Undefined;
  // Bytes of its tensor arguments and results; 0 if a result is a view of an argument, or if the
  // operator only allocates, because it then touches no elements.
  int64_t bytes = 0;
  int64_t memory_changes = 0;  // number of elements of Recording::memory before the call
  int64_t times = 1;           // number of equal calls for which it stands (ops::DryRepeats)
};

// A call of a collective, or of a send or receive.
struct Collective {
  comm::Operation operation = comm::Operation::barrier;
  comm::Reason reason = comm::Reason::control;
  std::string axis;  // of the group
  // Indices in Recording::rank_lists: of the list of the group's ranks, and of the list of the
  // ranks with which this rank exchanges bytes in this call.
  size_t ranks = 0;
  size_t partners = 0;
  int64_t law_bytes = 0;       // bytes that this rank sends, by the law
  int64_t operators = 0;       // number of elements of Recording::operators before the call
  int64_t memory_changes = 0;  // number of elements of Recording::memory before the call
  // Whether the rank goes on before the call has ended; if so, Recording::waits says until when.
  bool asynchronous = false;
};

// The first wait for the end of an asynchronous call. Recorded in dry runs only.
struct Wait {
  size_t collective = 0;  // index of the call in Recording::collectives
  // Numbers of elements of Recording::operators and of Recording::collectives before the wait.
  int64_t operators = 0, collectives = 0;
};

struct Recording {
  std::vector<Operator> operators;
  std::vector<Collective> collectives;
  std::vector<Wait> waits;
  // Distinct lists of global ranks, to which Collective refers.
  std::vector<std::vector<int>> rank_lists;
  std::vector<memory::MemoryChange> memory;
  memory::BytesByKind at_peak;  // bytes by kind at the first moment when their sum was largest
};

}  // namespace colossal::plan
