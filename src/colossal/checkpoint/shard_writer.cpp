#include "colossal/checkpoint/shard_writer.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <exception>
#include <span>

#include "colossal/base/error.h"
#include "colossal/checkpoint/saved_values.h"
#include "colossal/checkpoint/strided_shards.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::checkpoint {
namespace {

void refuse_non_finite(const std::string& name, const at::Tensor& values) {
  if (ops::all_finite(values)) return;
  throw IoError(
      fmt::format("the tensor \"{}\" holds numbers that are not finite, which no checkpoint may "
                  "hold",
                  name));
}

// Returns for each tensor whether its shards are strided on any rank. All ranks get the same
// answer.
std::vector<bool> find_strided(const std::vector<nn::ParameterList>& tensors,
                               const comm::Group& group) {
  const at::Tensor ranks = at::zeros({std::ssize(tensors)}, at::kLong);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool contiguous = std::ranges::all_of(
        tensors[i], [](const nn::ParameterHandle& part) { return part->is_contiguous_here(); });
    if (!contiguous) ranks[static_cast<int64_t>(i)] = 1;
  }
  const at::Tensor sum = ranks.to(group.device());
  comm::all_reduce(sum, group, comm::Reason::checkpoint);
  const at::Tensor found = comm::on_host(sum, group);
  const auto* counts = found.const_data_ptr<int64_t>();
  return std::vector<bool>(counts, counts + found.numel());
}

class ShardWriter {
 public:
  ShardWriter(io::DirectoryWriter& writer, const FilePlan& plan, const memory::ChunkEngine& chunks,
              const SliceOf& slice_of, const comm::Group& group)
      : writer_(writer),
        plan_(plan),
        chunks_(chunks),
        slice_of_(slice_of),
        group_(group),
        reader_(chunks) {}

  void write(const nn::ParameterList& tensor, bool strided) {
    attempt([&] {
      for (const nn::ParameterHandle& parameter : tensor) write_whole_states(*parameter);
    });
    const std::vector<SavedValues> kinds = saved_values(*tensor.front(), chunks_, slice_of_);
    std::vector<memory::OwnedShard> shards;
    for (const nn::ParameterHandle& parameter : tensor) {
      chunks_.for_each_checkpoint_shard(
          *parameter, [&](const memory::OwnedShard& shard) { shards.push_back(shard); });
    }
    if (strided) return exchange(kinds, shards, tensor.front()->numel());
    for (const memory::OwnedShard& shard : shards) {
      attempt(
          [&] { write_kinds(kinds, shard.elements.begin, reader_.read(shard, shard.elements)); });
    }
  }

  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Runs `work`, unless something has failed before.
  template <typename Work>
  void attempt(const Work& work) {
    if (failure_) return;
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  void exchange(const std::vector<SavedValues>& kinds,
                const std::vector<memory::OwnedShard>& shards, int64_t numel) {
    std::vector<at::ScalarType> types;
    for (const SavedValues& kind : kinds) types.push_back(kind.type);
    std::vector<Range> pieces;
    for (const memory::OwnedShard& shard : shards) pieces.push_back(shard.elements);
    const auto read = [&](size_t piece, Range elements) {
      std::vector<at::Tensor> values;
      attempt([&] { values = reader_.read(shards[piece], elements); });
      if (!failure_) return values;
      for (const at::ScalarType type : types) values.push_back(at::zeros({elements.size()}, type));
      return values;
    };
    const auto take = [&](int64_t begin, const std::vector<at::Tensor>& values) {
      attempt([&] { write_kinds(kinds, begin, values); });
    };
    exchange_shards(pieces, read, numel, types, group_, take);
  }

  void write_kinds(const std::vector<SavedValues>& kinds, int64_t begin,
                   const std::vector<at::Tensor>& values) {
    for (size_t kind = 0; kind < values.size(); ++kind) {
      if (kinds[kind].are_weights) refuse_non_finite(kinds[kind].slice.name, values[kind]);
      write_values(kinds[kind], begin, values[kind]);
    }
  }

  void write_whole_states(const nn::Parameter& parameter) {
    const std::vector<SavedValues> states = saved_whole_states(parameter, chunks_);
    for (const memory::ChunkEngine::WholeStatePart& part : chunks_.whole_state_parts(parameter)) {
      if (part.writes) write_values(states[part.state], part.begin, part.values.reshape(-1));
    }
  }

  // Writes elements of some values, from `begin` on.
  void write_values(const SavedValues& kind, int64_t begin, const at::Tensor& values) {
    COLOSSAL_CHECK(values.scalar_type() == kind.type, "{} is held as {}, and planned as {}",
                   kind.slice.name, c10::toString(values.scalar_type()), c10::toString(kind.type));
    const at::Tensor here = values.cpu();
    const std::span<const std::byte> bytes = bytes_of(here);
    const auto element = static_cast<size_t>(here.element_size());
    const std::vector<std::string> names = kind.slice.names();
    const Range elements{begin, begin + here.numel()};
    kind.slice.for_each_run(kind.shape, elements, [&](const TensorSlice::Run& run) {
      write_bytes(plan_.find(names[run.tensor], run.tensor_begin),
                  bytes.subspan(static_cast<size_t>(run.parameter_begin - begin) * element,
                                static_cast<size_t>(run.count) * element));
    });
  }

  void write_bytes(const FilePlan::Position& position, std::span<const std::byte> bytes) {
    for (size_t done = 0; done < bytes.size(); done += kBufferBytes) {
      writer_.write(*position.file, position.offset + static_cast<int64_t>(done),
                    bytes.subspan(done, std::min<size_t>(kBufferBytes, bytes.size() - done)));
    }
  }

  io::DirectoryWriter& writer_;
  const FilePlan& plan_;
  const memory::ChunkEngine& chunks_;
  const SliceOf& slice_of_;
  const comm::Group& group_;
  ShardReader reader_;
  std::exception_ptr failure_;
};

}  // namespace

void write_shards(io::DirectoryWriter& writer, const FilePlan& plan,
                  const memory::ChunkEngine& chunks, const SliceOf& slice_of,
                  const WeightFiles& files, const comm::Group& group) {
  const std::vector<nn::ParameterList> tensors = saved_tensors(chunks, files);
  const std::vector<bool> strided = find_strided(tensors, group);
  ShardWriter shards(writer, plan, chunks, slice_of, group);
  for (size_t i = 0; i < tensors.size(); ++i) shards.write(tensors[i], strided[i]);
  shards.rethrow_failure();
}

}  // namespace colossal::checkpoint
