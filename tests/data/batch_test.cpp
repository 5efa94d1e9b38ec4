#include "colossal/data/batch.h"
#include "colossal/data/text_batch.h"
#include "colossal/data/token_dataset.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Corpus counting_corpus(int32_t num_tokens) {
  std::vector<int32_t> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), 100);
  return Corpus::from_tokens(tokens);
}

std::vector<int64_t> values(const at::Tensor& tensor) {
  const int64_t* begin = tensor.const_data_ptr<int64_t>();
  return {begin, begin + tensor.numel()};
}

TEST(TokenDataset, ASampleEndsWithTheNextOnesFirstToken) {
  const TokenDataset dataset(counting_corpus(13), 4);
  EXPECT_EQ(dataset.num_samples(), 3);
  const std::vector<int64_t> samples = {2, 0};
  const Batch batch = dataset.read(samples, std::vector<int64_t>{50, 51});
  EXPECT_THAT(values(batch.at(kTokens)), ElementsAre(108, 109, 110, 111, 100, 101, 102, 103));
  EXPECT_THAT(values(batch.at(kLabels)), ElementsAre(109, 110, 111, 112, 101, 102, 103, 104));
  EXPECT_EQ(batch.at(kTokens).sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(batch.at(kLabels).sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(batch.at(kTokens).scalar_type(), at::kLong);
  EXPECT_THAT(batch.sample_ids, ElementsAre(50, 51));
}

TEST(TokenDataset, TellsDocumentsApartWhereAsked) {
  const TokenDataset joined(counting_corpus(13), 6);
  EXPECT_FALSE(joined.read(std::vector<int64_t>{0}, std::vector<int64_t>{0}).has(kDocuments));
  const std::vector<int32_t> tokens = {1, 9, 2, 3, 9, 9, 4, 5, 6, 7, 8, 9, 1};
  const TokenDataset dataset(Corpus::from_tokens(tokens), 6, 9);
  const Batch batch = dataset.read(std::vector<int64_t>{1, 0}, std::vector<int64_t>{0, 1});
  EXPECT_THAT(values(batch.at(kDocuments)), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2));
  EXPECT_EQ(batch.at(kDocuments).sizes(), batch.at(kTokens).sizes());
}

TEST(TokenDataset, CountsSamplesAsTheContractDoes) {
  EXPECT_EQ(TokenDataset(counting_corpus(12), 4).num_samples(), 2);
  EXPECT_EQ(TokenDataset(counting_corpus(5), 4).num_samples(), 1);
  EXPECT_EQ(TokenDataset(counting_corpus(2), 1).num_samples(), 1);
}

TEST(TokenDataset, NoSamplesGiveNoRows) {
  const Batch batch = TokenDataset(counting_corpus(13), 4).read({}, {});
  EXPECT_EQ(batch.at(kTokens).sizes(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(batch.at(kLabels).sizes(), (std::vector<int64_t>{0, 4}));
  EXPECT_TRUE(batch.sample_ids.empty());
}

TEST(TokenDataset, TooFewTokensAreRefusedWithTheCounts) {
  EXPECT_THAT(message_of<ConfigError>([] { TokenDataset(counting_corpus(4), 4); }),
              AllOf(HasSubstr("4 tokens in 1 file"), HasSubstr("data.sequence_length = 4"),
                    HasSubstr("5 tokens"), HasSubstr("at most 3")));
  EXPECT_THAT(message_of<ConfigError>([] { TokenDataset(counting_corpus(1), 4); }),
              AllOf(HasSubstr("1 token"), testing::Not(HasSubstr("at most"))));
  EXPECT_THAT(message_of<ConfigError>([] { TokenDataset(counting_corpus(4), 0); }),
              HasSubstr("data.sequence_length = 0"));
}

}  // namespace
}  // namespace colossal::data
