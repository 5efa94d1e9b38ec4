#include "colossal/ops/flash_attention.h"

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "colossal/ops/cpu_features.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/kernels/block_product.h"

namespace colossal::ops {
namespace {

using kernels::AttentionBlock;
using kernels::AttentionHalves;
using kernels::AttentionSums;
using kernels::ElementType;
using kernels::Matrix;

constexpr int64_t kRows = 128;  // queries of a block
constexpr int64_t kLanes = kernels::kAttentionLanes;
constexpr int64_t kAlignment = 64;  // bytes

// Keys of a block. On the causal diagonal a format may take fewer (kDiagonalKeys), which is less
// work that is masked. Both are multiples of 32, the keys of a word of dropout's bits.
constexpr int64_t kKeys = 64;

template <typename Real>
constexpr ElementType kType = sizeof(Real) == 8 ? ElementType::float64 : ElementType::float32;

int64_t round_up(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// Elements from one row of a matrix to the next: whole cache lines, an odd number of them, or
// columns of a power of two would share few lines of the cache.
template <typename Element>
int64_t stride_for(int64_t columns) {
  constexpr int64_t kLine = kAlignment / sizeof(Element);
  return (round_up(round_up(columns, kLanes), kLine) / kLine | 1) * kLine;
}

// Hands out a thread's part of one allocation; without memory, it counts what will be asked for.
class Scratch {
 public:
  explicit Scratch(char* memory) : memory_(memory) {}

  template <typename Number>
  Number* take(int64_t count) {
    const int64_t begin = used_;
    used_ += round_up(count * static_cast<int64_t>(sizeof(Number)), kAlignment);
    return memory_ ? reinterpret_cast<Number*>(memory_ + begin) : nullptr;
  }

  int64_t used() const { return used_; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

// One head's rows [sequence, columns] of a tensor [batch, heads, sequence, columns].
struct HeadRows {
  const at::Tensor& tensor;
  int64_t sample, head;

  int64_t offset(int64_t row) const {
    return sample * tensor.stride(0) + head * tensor.stride(1) + row * tensor.stride(2);
  }
  const void* at(int64_t row) const {
    return static_cast<const char*>(tensor.const_data_ptr()) + offset(row) * tensor.element_size();
  }
  void* mutable_at(int64_t row) const {
    return static_cast<char*>(tensor.mutable_data_ptr()) + offset(row) * tensor.element_size();
  }
  ElementType type() const { return element_type(tensor.scalar_type()); }
  int64_t rows() const { return tensor.size(2); }
  int64_t columns() const { return tensor.size(3); }
};

// to [count, columns up to a whole number of lanes] <- rows [begin, begin + count), then zeros.
template <typename Element>
void load_rows(const HeadRows& from, int64_t begin, int64_t count, ElementType to_type, Element* to,
               int64_t stride) {
  const int64_t columns = from.columns();
  for (int64_t row = 0; row < count; ++row, to += stride) {
    if (from.type() == to_type) {
      std::memcpy(to, from.at(begin + row), columns * sizeof(Element));
    } else {
      kernels::vector_kernels().convert(from.at(begin + row), from.type(), to, to_type, columns, 1);
    }
    std::fill(to + columns, to + round_up(columns, kLanes), Element{});
  }
}

template <typename Real>
void store_row(const Real* from, const HeadRows& to, int64_t row, double scale) {
  kernels::vector_kernels().convert(from, kType<Real>, to.mutable_at(row), to.type(), to.columns(),
                                    scale);
}

template <typename Real>
void transpose(const Real* from, int64_t from_stride, int64_t rows, int64_t columns, Real* to,
               int64_t to_stride) {
  const kernels::VectorKernels& kernels = kernels::vector_kernels();
  if constexpr (sizeof(Real) == 8) {
    kernels.transpose64(reinterpret_cast<const uint64_t*>(from), from_stride, rows, columns,
                        reinterpret_cast<uint64_t*>(to), to_stride);
  } else {
    kernels.transpose32(reinterpret_cast<const uint32_t*>(from), from_stride, rows, columns,
                        reinterpret_cast<uint32_t*>(to), to_stride);
  }
}

void brgemm_product(int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride,
                    int64_t c_stride, bool add, const at::BFloat16* a, const at::BFloat16* b,
                    float* c) {
  at::native::cpublas::brgemm(m, n, k, a_stride, b_stride, c_stride, add, a, b, c, true);
}

// The block kernel refuses CPUs without bf16 instructions, and what it wants of its operands has
// changed between versions: so it is tried once, on numbers whose sums are exact.
bool brgemm_works() {
  if (!has_bf16_instructions()) return false;
  constexpr int64_t kM = 5, kN = 32, kK = 6;
  std::vector<at::BFloat16> a, b(kK * kN);
  std::vector<float> expected(kM * kN, 1.0F), found = expected;
  for (int64_t i = 0; i < kM * kK; ++i) a.emplace_back(static_cast<float>(i - 7));
  for (int64_t k = 0; k < kK; ++k) {
    for (int64_t n = 0; n < kN; ++n) {
      const auto number = static_cast<float>((k * kN + n) % 97);
      b[(k / 2 * kN + n) * 2 + k % 2] = number;
      for (int64_t m = 0; m < kM; ++m) {
        expected[m * kN + n] += static_cast<float>(a[m * kK + k]) * number;
      }
    }
  }
  try {
    brgemm_product(kM, kN, kK, kK, kN, kN, true, a.data(), b.data(), found.data());
    at::native::cpublas::brgemm_release(true);
  } catch (const c10::Error&) {
    return false;
  }
  return found == expected;
}

// How operands of products lie in memory. A format has
//   Element, Sum  the types of operands and of results
//   kPair         rows of a right operand that are interleaved: it is [depth / kPair, n, kPair]
//   Keys          a head's keys or values as left operands
//   Queries       a block of queries, or of what has their shape, as right operands, the columns
//                 filled up with zeros to whole lanes
//   multiply      c [m, n] <- (add ? c : 0) + a [m, k] b [k, n]

// fp32 and fp64, also of bf16 numbers widened.
template <typename Real>
struct WideFormat {
  using Element = Real;
  using Sum = Real;
  static constexpr int64_t kPair = 1;
  static constexpr int64_t kDiagonalKeys = 32;

  kernels::BlockProduct<Real> block_product;

  explicit WideFormat(const FlashAttention&) {
    if constexpr (sizeof(Real) == 8) {
      block_product = kernels::block_product_kernels().float64;
    } else {
      block_product = kernels::block_product_kernels().float32;
    }
  }

  // A copy, with a stride that suits the cache: products from rows of a joined tensor are a third
  // slower.
  struct Keys {
    int64_t stride;
    Real* rows;

    Keys(Scratch& scratch, const at::Tensor& tensor, bool, bool)
        : stride(stride_for<Real>(tensor.size(3))),
          rows(scratch.take<Real>(tensor.size(2) * stride)) {}

    void load(const HeadRows& from) { load_rows(from, 0, from.rows(), kType<Real>, rows, stride); }
    Matrix<Real> left(int64_t key) const { return {rows + key * stride, stride, 1}; }
    Matrix<Real> left_transposed(int64_t key) const { return {rows + key * stride, 1, stride}; }
  };

  struct Queries {
    int64_t columns, right_stride, transposed_stride;
    Real* right;
    Real* right_transposed;

    Queries(Scratch& scratch, int64_t rows, int64_t columns_, int64_t stride, bool)
        : columns(columns_),
          right_stride(stride_for<Real>(columns)),
          transposed_stride(stride),
          right(scratch.take<Real>(rows * right_stride)),
          right_transposed(scratch.take<Real>(columns * stride)) {}

    void load(const HeadRows& from, int64_t begin, int64_t count) {
      load_rows(from, begin, count, kType<Real>, right, right_stride);
      const int64_t lanes = round_up(count, kLanes);
      std::fill(right + count * right_stride, right + lanes * right_stride, Real{0});
      transpose(right, right_stride, lanes, columns, right_transposed, transposed_stride);
    }
  };

  void multiply(int64_t m, int64_t n, int64_t k, const Matrix<Real>& a, const Real* b,
                int64_t b_stride, Real* c, int64_t c_stride, bool add) const {
    block_product(m, n, k, a, b, b_stride, c, c_stride, add);
  }
  void release() const {}
};

// bf16 operands of products that sum in fp32.
struct Bf16Format {
  using Element = uint16_t;
  using Sum = float;
  static constexpr int64_t kPair = 2;
  static constexpr int64_t kDiagonalKeys = 64;

  Bf16Product block_product;

  explicit Bf16Format(const FlashAttention& problem) : block_product(problem.bf16_product) {}

  struct Keys {
    int64_t stride, transposed_stride;
    uint16_t* rows;
    uint16_t* transposed;

    Keys(Scratch& scratch, const at::Tensor& tensor, bool needs_rows, bool needs_transposed)
        : stride(stride_for<uint16_t>(tensor.size(3))),
          transposed_stride(stride_for<uint16_t>(tensor.size(2))),
          rows(needs_rows ? scratch.take<uint16_t>(tensor.size(2) * stride) : nullptr),
          transposed(needs_transposed ? scratch.take<uint16_t>(tensor.size(3) * transposed_stride)
                                      : nullptr) {}

    void load(const HeadRows& from) {
      if (rows) load_rows(from, 0, from.rows(), ElementType::bfloat16, rows, stride);
      if (transposed) {
        kernels::vector_kernels().transpose_pairs(
            static_cast<const uint16_t*>(from.at(0)), from.tensor.stride(2), from.rows(),
            from.columns(), reinterpret_cast<uint32_t*>(transposed), transposed_stride / 2);
      }
    }
    Matrix<uint16_t> left(int64_t key) const { return {rows + key * stride, stride, 1}; }
    Matrix<uint16_t> left_transposed(int64_t key) const {
      return {transposed + key, transposed_stride, 1};
    }
  };

  struct Queries {
    int64_t columns, right_stride, transposed_stride;
    uint16_t* dense;
    uint16_t* right;
    uint16_t* right_transposed;

    Queries(Scratch& scratch, int64_t rows, int64_t columns_, int64_t stride, bool needs_right)
        : columns(columns_),
          right_stride(round_up(columns, kLanes)),
          transposed_stride(stride),
          dense(scratch.take<uint16_t>(rows * right_stride)),
          right(needs_right ? scratch.take<uint16_t>(rows * right_stride) : nullptr),
          right_transposed(scratch.take<uint16_t>(round_up(columns, 2) * stride)) {}

    void load(const HeadRows& from, int64_t begin, int64_t count) {
      const kernels::VectorKernels& kernels = kernels::vector_kernels();
      load_rows(from, begin, count, ElementType::bfloat16, dense, right_stride);
      const int64_t lanes = round_up(count, kLanes);
      std::fill(dense + count * right_stride, dense + lanes * right_stride, uint16_t{0});
      kernels.transpose32(reinterpret_cast<const uint32_t*>(dense), right_stride / 2, lanes,
                          (columns + 1) / 2, reinterpret_cast<uint32_t*>(right_transposed),
                          transposed_stride);
      if (right) {
        kernels.interleave_pairs(dense, right_stride, lanes, right_stride,
                                 reinterpret_cast<uint32_t*>(right), right_stride);
      }
    }
  };

  void multiply(int64_t m, int64_t n, int64_t k, const Matrix<uint16_t>& a, const uint16_t* b,
                int64_t b_stride, float* c, int64_t c_stride, bool add) const {
    block_product(m, n, round_up(k, 2), a.row_stride, b_stride, c_stride, add,
                  reinterpret_cast<const at::BFloat16*>(a.data),
                  reinterpret_cast<const at::BFloat16*>(b), c);
  }
  void release() const {
    if (block_product == brgemm_product) at::native::cpublas::brgemm_release(true);
  }
};

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
struct Range {
  Real least, most;

  Range(const Real* numbers, int64_t count) : least(numbers[0]), most(numbers[0]) {
    for (int64_t i = 1; i < count; ++i) {
      least = std::min(least, numbers[i]);
      most = std::max(most, numbers[i]);
    }
  }
  bool meets(const Range& other) const { return least <= other.most && other.least <= most; }
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
      const Range<Real> of_keys(key_documents(block.sample, keys.begin), keys.count);
      const Range<Real> of_queries(block.documents + keys.first, block.lanes() - keys.first);
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

Bf16Product bf16_block_product() {
  static const Bf16Product product = brgemm_works() ? brgemm_product : nullptr;
  return product;
}

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
