#include "colossal/data/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>

#include "colossal/base/error.h"

namespace colossal::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

int64_t length_of(const PackedRow& row) {
  int64_t length = 0;
  for (const PackedPart& part : row) length += part.range.size();
  return length;
}

std::vector<int64_t> random_lengths(int64_t count, int64_t most, int seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> lengths(count);
  for (int64_t& length : lengths) length = static_cast<int64_t>(random() % (most + 1));
  return lengths;
}

// Expects that every token is in exactly one row, in the order of its document.
void expect_whole(const std::vector<PackedRow>& rows, const std::vector<int64_t>& lengths,
                  int64_t row_length) {
  std::vector<std::vector<Range>> ranges(lengths.size());
  for (const PackedRow& row : rows) {
    EXPECT_FALSE(row.empty());
    EXPECT_LE(length_of(row), row_length);
    for (const PackedPart& part : row) ranges[part.document].push_back(part.range);
  }
  for (size_t document = 0; document < lengths.size(); ++document) {
    std::ranges::sort(ranges[document], {}, &Range::begin);
    int64_t end = 0;
    for (const Range& range : ranges[document]) {
      EXPECT_EQ(range.begin, end);
      EXPECT_LT(range.begin, range.end);
      end = range.end;
    }
    EXPECT_EQ(end, lengths[document]) << document;
  }
}

TEST(Packing, BestFitTakesTheLongestFirstAndTheFullestRow) {
  const std::vector<int64_t> lengths = {3, 7, 5, 2, 1, 2};
  // Row 0: 7. Row 1: 5. Then 3 fits row 0 exactly; 2, 2 and 1 fill row 1.
  EXPECT_THAT(pack_documents(lengths, 10, Packing::bfd),
              ElementsAre(ElementsAre(PackedPart{1, {0, 7}}, PackedPart{0, {0, 3}}),
                          ElementsAre(PackedPart{2, {0, 5}}, PackedPart{3, {0, 2}},
                                      PackedPart{5, {0, 2}}, PackedPart{4, {0, 1}})));
}

TEST(Packing, ALongDocumentIsCut) {
  const std::vector<int64_t> lengths = {9, 1};
  EXPECT_THAT(pack_documents(lengths, 4, Packing::bfd),
              ElementsAre(ElementsAre(PackedPart{0, {0, 4}}), ElementsAre(PackedPart{1, {0, 1}})));
  EXPECT_THAT(pack_documents(lengths, 4, Packing::bfd_split),
              ElementsAre(ElementsAre(PackedPart{0, {0, 4}}), ElementsAre(PackedPart{0, {4, 8}}),
                          ElementsAre(PackedPart{0, {8, 9}}, PackedPart{1, {0, 1}})));
  EXPECT_THAT(pack_documents(lengths, 4, Packing::wrapped),
              ElementsAre(ElementsAre(PackedPart{0, {0, 4}}), ElementsAre(PackedPart{0, {4, 8}}),
                          ElementsAre(PackedPart{0, {8, 9}}, PackedPart{1, {0, 1}})));
}

TEST(Packing, WrappedCutsWhereARowEnds) {
  EXPECT_THAT(pack_documents(std::vector<int64_t>{3, 0, 3}, 4, Packing::wrapped),
              ElementsAre(ElementsAre(PackedPart{0, {0, 3}}, PackedPart{2, {0, 1}}),
                          ElementsAre(PackedPart{2, {1, 3}})));
}

TEST(Packing, LosesAndRepeatsNothing) {
  for (const Packing packing : {Packing::bfd_split, Packing::wrapped}) {
    for (int seed = 0; seed < 20; ++seed) {
      const std::vector<int64_t> lengths = random_lengths(200, 3 * seed + 1, seed);
      expect_whole(pack_documents(lengths, 17, packing), lengths, 17);
    }
    EXPECT_THAT(pack_documents({}, 5, packing), IsEmpty());
    EXPECT_THAT(pack_documents(std::vector<int64_t>{0, 0}, 5, packing), IsEmpty());
    EXPECT_THROW(pack_documents({}, 0, packing), InternalError);
  }
}

TEST(Packing, WrappedRowsAreFull) {
  const std::vector<int64_t> lengths = random_lengths(300, 40, 1);
  const auto rows = pack_documents(lengths, 16, Packing::wrapped);
  for (size_t i = 0; i + 1 < rows.size(); ++i) EXPECT_EQ(length_of(rows[i]), 16);
}

// Documents that fit a row are not cut, and few rows are needed.
TEST(Packing, BestFitKeepsDocumentsWholeAndWastesLittle) {
  const std::vector<int64_t> lengths = random_lengths(5000, 512, 2);
  const auto rows = pack_documents(lengths, 512, Packing::bfd);
  for (const PackedRow& row : rows) {
    for (const PackedPart& part : row) EXPECT_EQ(part.range.size(), lengths[part.document]);
  }
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const int64_t fewest = (tokens + 511) / 512;
  EXPECT_LE(std::ssize(rows), fewest * 11 / 9 + 1);
}

TEST(Packing, AMillionDocumentsTakeAboutLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<int64_t> lengths = random_lengths(1'000'000, 4096, 3);
  EXPECT_GT(pack_documents(lengths, 4096, Packing::bfd).size(), 400'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Packing, ARowSaysWhichDocumentAndPositionEachTokenHas) {
  const std::vector<std::vector<int64_t>> documents = {{10, 11, 12}, {20, 21}};
  const PackedTokens row = fill_row({{1, {0, 2}}, {0, {1, 3}}}, documents, 6, -1);
  EXPECT_THAT(row.tokens, ElementsAre(20, 21, 11, 12, -1, -1));
  EXPECT_THAT(row.documents, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(row.positions, ElementsAre(0, 1, 0, 1, 0, 1));
}

}  // namespace
}  // namespace colossal::data
