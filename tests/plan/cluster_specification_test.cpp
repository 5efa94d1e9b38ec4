#include "colossal/plan/cluster_specification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "colossal/base/error.h"
#include "colossal/plan/measure_cluster.h"
#include "tests/support/temporary_directory.h"

namespace colossal::test {
namespace {

using plan::ClusterSpecification;
using testing::HasSubstr;

ClusterSpecification read(const std::string& text) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "cluster.toml";
  std::ofstream(path) << text;
  return plan::read_cluster(path);
}

TEST(ClusterSpecification, IsReadAsItIsWritten) {
  ClusterSpecification cluster;
  cluster.hosts.ranks = 8;
  cluster.hosts.memory = ByteSize{int64_t{80} << 30};
  cluster.bf16 = {.products = 7.2e14, .attention = 4e14, .elements = 2.5e12};
  cluster.device.operator_seconds = 4e-6;
  cluster.links = {.latency = 1e-5, .bandwidth = 3e11, .overlap = 0.9};
  const ClusterSpecification found = read(cluster_file(cluster));
  EXPECT_EQ(found.hosts.ranks, 8);
  EXPECT_EQ(found.hosts.cores, 0);
  EXPECT_EQ(found.hosts.memory, cluster.hosts.memory);
  EXPECT_EQ(found.bf16.products, 7.2e14);
  EXPECT_EQ(found.bf16.attention, 4e14);
  EXPECT_EQ(found.bf16.attention_backward, std::nullopt);
  EXPECT_EQ(found.fp32.products, std::nullopt);
  EXPECT_EQ(found.device.operator_seconds, 4e-6);
  EXPECT_EQ(found.links.bandwidth, 3e11);
  EXPECT_EQ(found.links.network_bandwidth, std::nullopt);
  EXPECT_EQ(found.links.overlap, 0.9);
}

TEST(ClusterSpecification, NamesAWrongKey) {
  const auto refusal = [](const std::string& text) {
    try {
      read(text);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("[links]\nbandwith = 1e9\n"), HasSubstr("links.bandwidth"));
  EXPECT_THAT(refusal("[links]\noverlap = 2\n"), HasSubstr("links.overlap"));
  EXPECT_THAT(refusal("[bf16]\nproducts = 0\n"), HasSubstr("bf16.products"));
}

// Whatever the machine, its rates are of an order that makes sense.
TEST(ClusterSpecification, IsMeasured) {
  const ClusterSpecification cluster = plan::measure_cluster();
  for (const plan::ComputeRates& rates : {cluster.bf16, cluster.fp32, cluster.fp64}) {
    EXPECT_GT(*rates.products, 1e8);
    EXPECT_GT(*rates.attention, 1e7);
    EXPECT_GT(*rates.attention_backward, 1e7);
    EXPECT_GT(*rates.elements, 1e7);
  }
  EXPECT_GT(*cluster.fp32.products, *cluster.fp64.products * 0.5);
  EXPECT_GT(cluster.device.operator_seconds, 1e-8);
  EXPECT_LT(cluster.device.operator_seconds, 1e-3);
  EXPECT_GT(*cluster.device.logits, 1e5);
}

}  // namespace
}  // namespace colossal::test
