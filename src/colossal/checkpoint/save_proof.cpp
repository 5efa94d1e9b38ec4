#include "colossal/checkpoint/save_proof.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "colossal/checkpoint/saved_values.h"

namespace colossal::checkpoint {
namespace {

// Few enough bits that sums over all ranks do not overflow.
constexpr int64_t kMarkBits = 0x7FFFFFFF;

// The hash of a position in a tensor (the finalizer of splitmix64).
int64_t mark_of(size_t tensor, int64_t position) {
  uint64_t mixed = (static_cast<uint64_t>(tensor) << 44) + static_cast<uint64_t>(position);
  mixed += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return static_cast<int64_t>((mixed ^ (mixed >> 31)) & kMarkBits);
}

}  // namespace

SaveProof::SaveProof(const FilePlan& plan)
    : plan_(plan), bytes_(plan.num_tensors(), 0), marks_(plan.num_tensors(), 0) {}

void SaveProof::add(const memory::ChunkEngine& chunks, const SliceOf& slice_of,
                    const WeightFiles& files) {
  const auto add_values = [&](const SavedValues& values, Range elements) {
    const auto element = static_cast<int64_t>(c10::elementSize(values.type));
    const std::vector<std::string> names = values.slice.names();
    values.slice.for_each_run(values.shape, elements, [&](const TensorSlice::Run& run) {
      add_range(names[run.tensor],
                {run.tensor_begin * element, (run.tensor_begin + run.count) * element});
    });
  };
  for (const nn::ParameterList& tensor : saved_tensors(chunks, files)) {
    const std::vector<SavedValues> kinds = saved_values(*tensor.front(), chunks, slice_of);
    for (const nn::ParameterHandle& parameter : tensor) {
      chunks.for_each_checkpoint_shard(*parameter, [&](const memory::OwnedShard& shard) {
        const std::vector<at::ScalarType> held = held_types(shard, chunks);
        for (size_t kind = 0; kind < kinds.size(); ++kind) {
          if (kind < held.size() && held[kind] == kinds[kind].type) {
            add_values(kinds[kind], shard.elements);
          } else if (error_.empty()) {
            error_ = fmt::format("a rank holds the tensor \"{}\" as {}, but files store it as {}",
                                 kinds[kind].slice.name,
                                 kind < held.size() ? c10::toString(held[kind]) : "nothing",
                                 c10::toString(kinds[kind].type));
          }
        }
      });
      const std::vector<SavedValues> whole = saved_whole_states(*parameter, chunks);
      for (const memory::ChunkEngine::WholeStatePart& part : chunks.whole_state_parts(*parameter)) {
        if (part.writes) {
          add_values(whole[part.state], {part.begin, part.begin + part.values.numel()});
        }
      }
    }
  }
}

void SaveProof::add_range(const std::string& tensor, Range bytes) {
  const size_t number = plan_.tensor(tensor).number;
  bytes_[number] += bytes.size();
  marks_[number] += mark_of(number, bytes.begin) - mark_of(number, bytes.end);
  marks_[number] &= kMarkBits;
}

void SaveProof::add_other_ranks(const comm::Group& group) {
  const at::Tensor both =
      at::cat({at::tensor(bytes_, at::kLong), at::tensor(marks_, at::kLong)}).to(group.device());
  comm::all_reduce(both, group, comm::Reason::checkpoint);
  const at::Tensor sums = comm::on_host(both, group);
  const auto* sum = sums.const_data_ptr<int64_t>();
  bytes_.assign(sum, sum + bytes_.size());
  marks_.assign(sum + bytes_.size(), sum + 2 * bytes_.size());
  for (const std::string& error : comm::gather_bytes(error_, group, comm::Reason::checkpoint)) {
    if (error_.empty()) error_ = error;
  }
}

std::string SaveProof::error() const {
  if (!error_.empty()) return error_;
  for (const FilePlan::PlannedFile& file : plan_.files()) {
    for (const io::TensorEntry& entry : file.plan.entries) {
      const size_t number = plan_.tensor(entry.name).number;
      const int64_t whole = mark_of(number, 0) - mark_of(number, entry.bytes());
      if (bytes_[number] == entry.bytes() && ((marks_[number] - whole) & kMarkBits) == 0) continue;
      if (bytes_[number] == entry.bytes()) {
        return fmt::format(
            "of the tensor \"{}\" the ranks would write some bytes twice, and others "
            "not at all",
            entry.name);
      }
      return fmt::format("of the {} bytes of the tensor \"{}\" the ranks would write {}",
                         entry.bytes(), entry.name, bytes_[number]);
    }
  }
  return "";
}

}  // namespace colossal::checkpoint
