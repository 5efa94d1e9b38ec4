#include "colossal/comm/sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace colossal::comm {
namespace {

at::Tensor sum(const std::vector<at::Tensor>& terms, at::ScalarType out_type,
               InstructionSet set = widest_instruction_set()) {
  std::vector<const void*> sources;
  for (const at::Tensor& term : terms) sources.push_back(term.const_data_ptr());
  at::Tensor out = at::empty_like(terms[0], at::TensorOptions(out_type));
  sum_in_rank_order(sources, out.numel(), terms[0].scalar_type(), out.mutable_data_ptr(), out_type,
                    set);
  return out;
}

at::Tensor reference(const std::vector<at::Tensor>& terms, at::ScalarType accumulator,
                     at::ScalarType out_type) {
  at::Tensor sum = terms[0].to(accumulator);
  for (size_t i = 1; i < terms.size(); ++i) sum = sum + terms[i].to(accumulator);
  return sum.to(out_type);
}

struct TypeCase {
  at::ScalarType type, accumulator, out;
};

TEST(SumInRankOrder, EqualsASerialSumBitForBit) {
  constexpr std::array kCases{TypeCase{at::kFloat, at::kFloat, at::kFloat},
                              TypeCase{at::kDouble, at::kDouble, at::kDouble},
                              TypeCase{at::kBFloat16, at::kFloat, at::kBFloat16},
                              TypeCase{at::kBFloat16, at::kFloat, at::kFloat},
                              TypeCase{at::kHalf, at::kFloat, at::kHalf},
                              TypeCase{at::kHalf, at::kFloat, at::kFloat},
                              TypeCase{at::kFloat, at::kFloat, at::kBFloat16},
                              TypeCase{at::kFloat, at::kFloat, at::kHalf},
                              TypeCase{at::kLong, at::kLong, at::kLong}};
  for (const auto& [type, accumulator, out] : kCases) {
    for (int64_t numel : {0, 1, 2047, 2048, 5003}) {
      std::vector<at::Tensor> terms;
      for (int i = 0; i < 5; ++i) {
        terms.push_back((at::arange(numel, at::kDouble) * (7 + i)).sin().mul(1000).to(type));
      }
      const at::Tensor expected = reference(terms, accumulator, out);
      for (const InstructionSet set :
           {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
        if (set > widest_instruction_set()) continue;
        EXPECT_TRUE(at::equal(sum(terms, out, set), expected))
            << type << " " << out << " " << numel << " " << name_of(set);
      }
    }
  }
}

TEST(SumInRankOrder, MayWriteOverASource) {
  const at::Tensor a = at::arange(5000, at::kFloat);
  const at::Tensor b = at::ones(5000, at::kFloat);
  const std::array<const void*, 2> sources{a.const_data_ptr(), b.const_data_ptr()};
  sum_in_rank_order(sources, 5000, at::kFloat, b.mutable_data_ptr(), at::kFloat);
  EXPECT_TRUE(at::equal(b, a + 1));
}

TEST(SumInRankOrder, RoundsBfloat16AsLibTorchDoes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor values =
      at::tensor({0.f, -0.f, infinity, -infinity, nan, -nan, 1e38f, 3.3e38f, 1e-40f})
          .to(at::kBFloat16);
  const std::vector<at::Tensor> terms{values, values};
  const at::Tensor ours = sum(terms, at::kBFloat16);
  const at::Tensor theirs = (values.to(at::kFloat) * 2).to(at::kBFloat16);
  EXPECT_TRUE(at::equal(ours.isnan(), theirs.isnan()));
  EXPECT_TRUE(at::equal(ours.nan_to_num(7), theirs.nan_to_num(7)));
}

TEST(SumInRankOrder, KnowsWhatItCanAdd) {
  EXPECT_TRUE(can_sum(at::kBFloat16, at::kFloat));
  EXPECT_TRUE(can_sum(at::kFloat, at::kBFloat16));
  EXPECT_FALSE(can_sum(at::kBFloat16, at::kHalf));
  EXPECT_FALSE(can_sum(at::kDouble, at::kFloat));
  EXPECT_FALSE(can_sum(at::kByte, at::kByte));
}

}  // namespace
}  // namespace colossal::comm
