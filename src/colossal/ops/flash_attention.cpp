#include "colossal/ops/flash_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "colossal/ops/flash_formats.h"

namespace colossal::ops {
namespace {

using namespace flash;
using kernels::AttentionBlock;
using kernels::AttentionHalves;
using kernels::AttentionSums;

constexpr int64_t kRows = 128;  // queries of a block

// Keys of a block. On the causal diagonal a format may take fewer (kDiagonalKeys), which is less
// work that is masked. Both are multiples of 32, the keys of a word of dropout's bits.
constexpr int64_t kKeys = 64;

// Numbers that are equal where the documents of a sample are, small enough for a float.
at::Tensor number_documents(const at::Tensor& documents, at::ScalarType type) {
  const at::Tensor numbers = at::empty(documents.sizes(), type);
  const int64_t keys = documents.size(1);
  std::vector<int64_t> ids;
  for (int64_t sample = 0; sample < documents.size(0); ++sample) {
    const auto id = [&](int64_t key) {
      return documents
          .const_data_ptr<int64_t>()[sample * documents.stride(0) + key * documents.stride(1)];
    };
    ids.clear();
    for (int64_t key = 0; key < keys; ++key) {
      if (ids.empty() || ids.back() != id(key)) ids.push_back(id(key));
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (int64_t key = 0; key < keys; ++key) {
      const auto number = std::lower_bound(ids.begin(), ids.end(), id(key)) - ids.begin();
      if (type == at::kDouble) {
        numbers.mutable_data_ptr<double>()[sample * keys + key] = static_cast<double>(number);
      } else {
        numbers.mutable_data_ptr<float>()[sample * keys + key] = static_cast<float>(number);
      }
    }
  }
  return numbers;
}

template <typename Real>
struct Bounds {
  Real least, most;

  Bounds(const Real* numbers, int64_t count) : least(numbers[0]), most(numbers[0]) {
    for (int64_t i = 1; i < count; ++i) {
      least = std::min(least, numbers[i]);
      most = std::max(most, numbers[i]);
    }
  }
  bool meets(const Bounds& other) const { return least <= other.most && other.least <= most; }
  bool is_one() const { return least == most; }
};

template <typename Format>
class Flash {
 public:
  using Real = typename Format::Sum;
  using Element = typename Format::Element;

  explicit Flash(const FlashAttention& given)
      : given_(given),
        format_(given),
        rule_(dropout_rule(given.dropout)),
        kv_heads_(given.key.size(1)),
        group_(given.query.size(1) / kv_heads_),
        sequence_(given.query.size(2)),
        keys_(given.key.size(2)),
        head_size_(given.query.size(3)),
        value_size_(given.value.size(3)),
        rows_(std::min(kRows, round_up(sequence_, kLanes))),
        stride_(stride_for<Real>(rows_)) {
    if (given.documents.defined()) {
      documents_ = number_documents(given.documents, c10::CppTypeToScalarType<Real>::value);
    }
  }

  void forward(const at::Tensor& output, const at::Tensor& logsumexp) const;
  void backward(const at::Tensor& output, const at::Tensor& logsumexp,
                const at::Tensor& output_gradient, const at::Tensor& query_gradient,
                const at::Tensor& key_gradient, const at::Tensor& value_gradient) const;

 private:
  // A block of queries of one head, and what each of its lanes may see.
  struct QueryBlock {
    int64_t sample, head, begin, rows;
    int64_t first_position;  // of its first query among the keys
    Real* limits;
    Real* documents;
    RandomRow* random_rows;
    uint32_t* kept;

    QueryBlock(Scratch& scratch, const Flash& flash)
        : limits(scratch.take<Real>(flash.stride_)),
          documents(flash.documents_.defined() ? scratch.take<Real>(flash.stride_) : nullptr),
          random_rows(flash.given_.dropout > 0 ? scratch.take<RandomRow>(flash.rows_) : nullptr),
          kept(flash.given_.dropout > 0 ? scratch.take<uint32_t>(kKeys / 32 * flash.stride_)
                                        : nullptr) {}

    int64_t lanes() const { return round_up(rows, kLanes); }
  };

  // Keys [begin, begin + count) for the lanes [first, lanes) of a block of queries.
  struct KeyBlock {
    int64_t begin, count, first;
    bool masked;
  };

  struct Forward {
    typename Format::Keys keys, values;
    typename Format::Queries queries;
    QueryBlock block;
    Real* scores;
    uint32_t* pairs;
    AttentionSums sums;
    Real* rows;  // the outputs, a row for each query

    Forward(Scratch& scratch, const Flash& flash)
        : keys(scratch, flash.given_.key, true, false),
          values(scratch, flash.given_.value, false, true),
          queries(scratch, flash.rows_, flash.head_size_, flash.stride_, false),
          block(scratch, flash),
          scores(scratch.take<Real>(kKeys * flash.stride_)),
          pairs(Format::kPair == 2 ? scratch.take<uint32_t>(kKeys / 2 * flash.stride_) : nullptr),
          sums{scratch.take<Real>(flash.stride_), scratch.take<Real>(flash.stride_),
               scratch.take<Real>(flash.value_size_ * flash.stride_), flash.value_size_},
          rows(scratch.take<Real>(flash.rows_ * flash.value_size_)) {}
  };

  struct Backward {
    typename Format::Keys keys, values;
    typename Format::Queries queries, output_gradients;
    QueryBlock block;
    Real* scores;
    Real* score_gradients;
    AttentionHalves halves;
    Real* logsumexps;
    Real* deltas;
    Real* query_gradients;  // transposed
    Real* rows;             // the same, a row for each query
    int64_t key_stride, value_stride;
    Real* key_gradients;
    Real* value_gradients;

    Backward(Scratch& scratch, const Flash& flash)
        : keys(scratch, flash.given_.key, true, true),
          values(scratch, flash.given_.value, true, false),
          queries(scratch, flash.rows_, flash.head_size_, flash.stride_, true),
          output_gradients(scratch, flash.rows_, flash.value_size_, flash.stride_, true),
          block(scratch, flash),
          scores(scratch.take<Real>(kKeys * flash.stride_)),
          score_gradients(scratch.take<Real>(kKeys * flash.stride_)),
          halves{},
          logsumexps(scratch.take<Real>(flash.stride_)),
          deltas(scratch.take<Real>(flash.stride_)),
          query_gradients(scratch.take<Real>(flash.head_size_ * flash.stride_)),
          rows(scratch.take<Real>(flash.rows_ * flash.head_size_)),
          key_stride(stride_for<Real>(flash.head_size_)),
          value_stride(stride_for<Real>(flash.value_size_)),
          key_gradients(scratch.take<Real>(flash.keys_ * key_stride)),
          value_gradients(scratch.take<Real>(flash.keys_ * value_stride)) {
      if constexpr (Format::kPair == 2) {
        halves = {scratch.take<uint16_t>(kKeys * flash.stride_),
                  scratch.take<uint16_t>(kKeys * flash.stride_),
                  scratch.take<uint32_t>(kKeys / 2 * flash.stride_)};
      }
    }
  };

  // run(sample, kv_head, buffers) for each on this rank's threads. All memory is allocated here, by
  // the thread that calls.
  template <typename Buffers, typename Run>
  void for_each_key_head(const Run& run) const;

  // run(block) for the blocks of all query heads that share a key head.
  template <typename Run>
  void for_each_query_block(int64_t sample, int64_t kv_head, QueryBlock& block,
                            const Run& run) const;

  // run(keys) for the blocks of keys that a block of queries sees.
  template <typename Run>
  void for_each_key_block(const QueryBlock& block, const Run& run) const;

  void forward_block(const QueryBlock& block, Forward& buffers) const;
  void backward_block(const QueryBlock& block, Backward& buffers) const;

  // A block's probabilities and score gradients as left operands, and the latter as a right one.
  struct GradientOperands {
    const Element* probabilities;
    const Element* gradients;
    const Element* right_gradients;
  };
  GradientOperands compute_gradients(const AttentionBlock& described, int64_t first,
                                     Backward& buffers) const;

  AttentionBlock describe(const QueryBlock& block, const KeyBlock& keys, Real* scores) const;

  const Real* key_documents(int64_t sample, int64_t key) const {
    return documents_.defined() ? documents_.const_data_ptr<Real>() + sample * keys_ + key
                                : nullptr;
  }

  const FlashAttention& given_;
  Format format_;
  kernels::DropoutRule rule_;
  at::Tensor documents_;  // [batch, keys] Real
  int64_t kv_heads_, group_, sequence_, keys_, head_size_, value_size_;
  int64_t rows_;    // queries of a block, at most
  int64_t stride_;  // from one key to the next of arrays [keys, lanes]
};

template <typename Format>
template <typename Buffers, typename Run>
void Flash<Format>::for_each_key_head(const Run& run) const {
  Scratch counted(nullptr);
  { const Buffers sizes(counted, *this); }
  const int64_t pieces = given_.query.size(0) * kv_heads_;
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), pieces);
  const int64_t share = at::divup(pieces, threads);
  const at::Tensor memory = at::empty({threads, counted.used() + kAlignment}, at::kByte);
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t thread = first; thread < last; ++thread) {
      auto place = reinterpret_cast<uintptr_t>(memory.mutable_data_ptr()) +
                   static_cast<uintptr_t>(thread * memory.size(1));
      place = (place + kAlignment - 1) / kAlignment * kAlignment;
      Scratch scratch(reinterpret_cast<char*>(place));
      Buffers buffers(scratch, *this);
      const int64_t end = std::min(pieces, (thread + 1) * share);
      for (int64_t piece = thread * share; piece < end; ++piece) {
        run(piece / kv_heads_, piece % kv_heads_, buffers);
      }
    }
    format_.release();
  });
}

template <typename Format>
template <typename Run>
void Flash<Format>::for_each_query_block(int64_t sample, int64_t kv_head, QueryBlock& block,
                                         const Run& run) const {
  block.sample = sample;
  for (block.head = kv_head * group_; block.head < (kv_head + 1) * group_; ++block.head) {
    const RandomKey key = random_subkey(given_.random_key, given_.head_begin + block.head);
    for (block.begin = 0; block.begin < sequence_; block.begin += kRows) {
      block.rows = std::min(kRows, sequence_ - block.begin);
      block.first_position = keys_ - sequence_ + block.begin;
      for (int64_t i = 0; i < block.lanes(); ++i) {
        const int64_t position = block.first_position + std::min(i, block.rows - 1);
        block.limits[i] = static_cast<Real>(given_.causal ? position + 1 : keys_);
        if (block.documents) block.documents[i] = *key_documents(sample, position);
        if (block.random_rows) {
          block.random_rows[i] = random_row(key, static_cast<uint64_t>(given_.sample_ids[sample]),
                                            static_cast<uint32_t>(position));
        }
      }
      run();
    }
  }
}

template <typename Format>
template <typename Run>
void Flash<Format>::for_each_key_block(const QueryBlock& block, const Run& run) const {
  const int64_t end = given_.causal ? block.first_position + block.rows : keys_;
  const int64_t seen_by_all = given_.causal ? block.first_position + 1 : keys_;
  KeyBlock keys{};
  for (; keys.begin < end; keys.begin += keys.count) {
    const bool diagonal = keys.begin + kKeys > seen_by_all && seen_by_all < end;
    keys.count = std::min(diagonal ? Format::kDiagonalKeys : kKeys, end - keys.begin);
    keys.masked = keys.begin + keys.count > seen_by_all;
    // Lanes before the one that stands at the first key see nothing.
    const int64_t before = given_.causal ? keys.begin - block.first_position : 0;
    keys.first = std::max<int64_t>(0, before) / kLanes * kLanes;
    if (block.documents) {
      const Bounds<Real> of_keys(key_documents(block.sample, keys.begin), keys.count);
      const Bounds<Real> of_queries(block.documents + keys.first, block.lanes() - keys.first);
      if (!of_keys.meets(of_queries)) continue;
      keys.masked |= !of_keys.is_one() || !of_queries.is_one();
    }
    run(keys);
  }
}

template <typename Format>
AttentionBlock Flash<Format>::describe(const QueryBlock& block, const KeyBlock& keys,
                                       Real* scores) const {
  const int64_t lanes = block.lanes() - keys.first;
  if (block.kept) {
    // A group of random words is 64 keys, two words of bits; a block is one group, or a half.
    static_assert(kKeys == kRandomGroup);
    kernels::vector_kernels().kept_bits(block.random_rows + keys.first, lanes, rule_.threshold,
                                        static_cast<uint32_t>(keys.begin / kRandomGroup),
                                        block.kept + keys.first, stride_);
  }
  const int64_t half = keys.begin % kRandomGroup / 32;
  return {.type = kType<Real>,
          .scores = scores + keys.first,
          .stride = stride_,
          .keys = keys.count,
          .lanes = lanes,
          .scale = given_.scale * std::numbers::log2e,
          .key_begin = keys.begin,
          .limits = keys.masked ? block.limits + keys.first : nullptr,
          .query_documents = block.documents ? block.documents + keys.first : nullptr,
          .key_documents = key_documents(block.sample, keys.begin),
          .kept = block.kept ? block.kept + half * stride_ + keys.first : nullptr,
          .kept_scale = rule_.scale};
}

template <typename Format>
void Flash<Format>::forward_block(const QueryBlock& block, Forward& buffers) const {
  Real* maxima = static_cast<Real*>(buffers.sums.maxima);
  Real* sums = static_cast<Real*>(buffers.sums.sums);
  Real* outputs = static_cast<Real*>(buffers.sums.outputs);
  std::fill_n(maxima, stride_, -std::numeric_limits<Real>::infinity());
  std::fill_n(sums, stride_, Real{0});
  std::fill_n(outputs, value_size_ * stride_, Real{0});
  buffers.queries.load({given_.query, block.sample, block.head}, block.begin, block.rows);
  for_each_key_block(block, [&](const KeyBlock& keys) {
    const int64_t first = keys.first, lanes = block.lanes() - first;
    format_.multiply(keys.count, lanes, head_size_, buffers.keys.left(keys.begin),
                     buffers.queries.right_transposed + first * Format::kPair,
                     buffers.queries.transposed_stride, buffers.scores + first, stride_, false);
    const AttentionSums of_lanes{maxima + first, sums + first, outputs + first, value_size_};
    uint32_t* pairs = buffers.pairs ? buffers.pairs + first : nullptr;
    kernels::vector_kernels().attention_probabilities(describe(block, keys, buffers.scores),
                                                      of_lanes, pairs);
    const auto* probabilities = reinterpret_cast<const Element*>(
        pairs ? static_cast<const void*>(pairs) : buffers.scores + first);
    format_.multiply(value_size_, lanes, keys.count, buffers.values.left_transposed(keys.begin),
                     probabilities, stride_, outputs + first, stride_, true);
  });
  transpose(outputs, stride_, value_size_, block.rows, buffers.rows, value_size_);
}

template <typename Format>
void Flash<Format>::forward(const at::Tensor& output, const at::Tensor& logsumexp) const {
  auto* logsumexps = logsumexp.mutable_data_ptr<Real>();
  for_each_key_head<Forward>([&](int64_t sample, int64_t kv_head, Forward& buffers) {
    buffers.keys.load({given_.key, sample, kv_head});
    buffers.values.load({given_.value, sample, kv_head});
    QueryBlock& block = buffers.block;
    for_each_query_block(sample, kv_head, block, [&] {
      forward_block(block, buffers);
      const HeadRows to{output, sample, block.head};
      for (int64_t row = 0; row < block.rows; ++row) {
        const Real maximum = static_cast<const Real*>(buffers.sums.maxima)[row];
        const Real sum = static_cast<const Real*>(buffers.sums.sums)[row];
        store_row(buffers.rows + row * value_size_, to, block.begin + row, 1.0 / sum);
        logsumexps[sample * logsumexp.stride(0) + block.head * logsumexp.stride(1) +
                   (block.begin + row) * logsumexp.stride(2)] =
            static_cast<Real>(maximum * std::numbers::ln2 + std::log(static_cast<double>(sum)));
      }
    });
  });
}

template <typename Format>
auto Flash<Format>::compute_gradients(const AttentionBlock& described, int64_t first,
                                      Backward& buffers) const -> GradientOperands {
  Real* gradients = buffers.score_gradients + first;
  AttentionHalves halves = buffers.halves;
  if constexpr (Format::kPair == 2) {
    halves.probabilities += first;
    halves.gradients += first;
    halves.gradient_pairs += first;
  }
  kernels::vector_kernels().attention_gradients(described, gradients, buffers.logsumexps + first,
                                                buffers.deltas + first,
                                                Format::kPair == 2 ? &halves : nullptr);
  if constexpr (Format::kPair == 2) {
    return {halves.probabilities, halves.gradients,
            reinterpret_cast<const Element*>(halves.gradient_pairs)};
  } else {
    return {buffers.scores + first, gradients, gradients};
  }
}

// With P the probabilities, M the mask with its factor, O the output and D = rowsum(dO * O):
//   dV = (P M)^T dO,  dS = P * (M * (dO V^T) - D),  dQ = scale dS K,  dK = scale dS^T Q.
template <typename Format>
void Flash<Format>::backward_block(const QueryBlock& block, Backward& buffers) const {
  constexpr int64_t kPair = Format::kPair;
  const auto& queries = buffers.queries;
  const auto& output_gradients = buffers.output_gradients;
  std::fill_n(buffers.query_gradients, head_size_ * stride_, Real{0});
  for_each_key_block(block, [&](const KeyBlock& keys) {
    const int64_t first = keys.first, lanes = block.lanes() - first;
    format_.multiply(keys.count, lanes, head_size_, buffers.keys.left(keys.begin),
                     queries.right_transposed + first * kPair, queries.transposed_stride,
                     buffers.scores + first, stride_, false);
    format_.multiply(keys.count, lanes, value_size_, buffers.values.left(keys.begin),
                     output_gradients.right_transposed + first * kPair,
                     output_gradients.transposed_stride, buffers.score_gradients + first, stride_,
                     false);
    const auto [probabilities, gradients, right_gradients] =
        compute_gradients(describe(block, keys, buffers.scores), first, buffers);
    format_.multiply(keys.count, round_up(value_size_, kLanes), lanes, {probabilities, stride_, 1},
                     output_gradients.right + first * output_gradients.right_stride,
                     output_gradients.right_stride,
                     buffers.value_gradients + keys.begin * buffers.value_stride,
                     buffers.value_stride, true);
    format_.multiply(keys.count, round_up(head_size_, kLanes), lanes, {gradients, stride_, 1},
                     queries.right + first * queries.right_stride, queries.right_stride,
                     buffers.key_gradients + keys.begin * buffers.key_stride, buffers.key_stride,
                     true);
    format_.multiply(head_size_, lanes, keys.count, buffers.keys.left_transposed(keys.begin),
                     right_gradients, stride_, buffers.query_gradients + first, stride_, true);
  });
  transpose(buffers.query_gradients, stride_, head_size_, block.rows, buffers.rows, head_size_);
}

template <typename Format>
void Flash<Format>::backward(const at::Tensor& output, const at::Tensor& logsumexp,
                             const at::Tensor& output_gradient, const at::Tensor& query_gradient,
                             const at::Tensor& key_gradient,
                             const at::Tensor& value_gradient) const {
  const auto* logsumexps = logsumexp.const_data_ptr<Real>();
  for_each_key_head<Backward>([&](int64_t sample, int64_t kv_head, Backward& buffers) {
    buffers.keys.load({given_.key, sample, kv_head});
    buffers.values.load({given_.value, sample, kv_head});
    std::fill_n(buffers.key_gradients, keys_ * buffers.key_stride, Real{0});
    std::fill_n(buffers.value_gradients, keys_ * buffers.value_stride, Real{0});
    QueryBlock& block = buffers.block;
    for_each_query_block(sample, kv_head, block, [&] {
      const HeadRows outputs{output, sample, block.head};
      const HeadRows output_gradients{output_gradient, sample, block.head};
      buffers.queries.load({given_.query, sample, block.head}, block.begin, block.rows);
      buffers.output_gradients.load(output_gradients, block.begin, block.rows);
      std::fill_n(buffers.logsumexps, stride_, Real{0});
      std::fill_n(buffers.deltas, stride_, Real{0});
      for (int64_t row = 0; row < block.rows; ++row) {
        const int64_t position = block.begin + row;
        buffers.logsumexps[row] = static_cast<Real>(
            logsumexps[sample * logsumexp.stride(0) + block.head * logsumexp.stride(1) +
                       position * logsumexp.stride(2)] *
            std::numbers::log2e);
        buffers.deltas[row] = static_cast<Real>(kernels::vector_kernels().inner_product(
            outputs.at(position), outputs.type(), output_gradients.at(position),
            output_gradients.type(), value_size_));
      }
      backward_block(block, buffers);
      const HeadRows to{query_gradient, sample, block.head};
      for (int64_t row = 0; row < block.rows; ++row) {
        store_row(buffers.rows + row * head_size_, to, block.begin + row, given_.scale);
      }
    });
    for (int64_t key = 0; key < keys_; ++key) {
      store_row(buffers.key_gradients + key * buffers.key_stride, {key_gradient, sample, kv_head},
                key, given_.scale);
      store_row(buffers.value_gradients + key * buffers.value_stride,
                {value_gradient, sample, kv_head}, key, 1);
    }
  });
}

// run(attention) in the format for the problem's type.
template <typename Run>
void with_format(const FlashAttention& problem, const Run& run) {
  const at::ScalarType type = problem.query.scalar_type();
  if (type == at::kDouble) {
    run(Flash<WideFormat<double>>(problem));
  } else if (type == at::kBFloat16 && problem.bf16_product) {
    run(Flash<Bf16Format>(problem));
  } else {
    run(Flash<WideFormat<float>>(problem));
  }
}

}  // namespace

void flash_attention_forward(const FlashAttention& problem, const at::Tensor& output,
                             const at::Tensor& logsumexp) {
  with_format(problem, [&](const auto& flash) { flash.forward(output, logsumexp); });
}

void flash_attention_backward(const FlashAttention& problem, const at::Tensor& output,
                              const at::Tensor& logsumexp, const at::Tensor& output_gradient,
                              const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                              const at::Tensor& value_gradient) {
  with_format(problem, [&](const auto& flash) {
    flash.backward(output, logsumexp, output_gradient, query_gradient, key_gradient,
                   value_gradient);
  });
}

}  // namespace colossal::ops
