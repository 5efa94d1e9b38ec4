#include "colossal/cluster/host_list.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostList, expands_what_slurm_writes) {
  EXPECT_THAT(expand_host_list("login"), ElementsAre("login"));
  EXPECT_THAT(expand_host_list("a,b.example.org"), ElementsAre("a", "b.example.org"));
  EXPECT_THAT(expand_host_list("host[01-03,7]"),
              ElementsAre("host01", "host02", "host03", "host7"));
  EXPECT_THAT(expand_host_list("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(expand_host_list("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(expand_host_list("a[1,3]-ib,b"), ElementsAre("a1-ib", "a3-ib", "b"));
  EXPECT_THAT(expand_host_list("r[1-2]n[3-4]"), ElementsAre("r1n3", "r1n4", "r2n3", "r2n4"));
}

TEST(HostList, refuses_what_is_none) {
  for (const char* list : {"", "a,,b", "a[1-", "a]1[", "a[[1]]", "a[]", "a[3-1]", "a[1-x]", "a[-1]",
                           "a[1-999999999999]", "a[1-999999]", "a[1-9999]b[1-9999]"}) {
    try {
      expand_host_list(list);
      ADD_FAILURE() << "took '" << list << "'";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(list));
    }
  }
}

TEST(HostList, expands_counts) {
  EXPECT_THAT(expand_counts("4"), ElementsAre(4));
  EXPECT_THAT(expand_counts("4(x2),3"), ElementsAre(4, 4, 3));
  for (const char* counts : {"", "x", "4(x", "4(xy)", "4(x2),", "-1", "4(x99999999999)"}) {
    EXPECT_THROW(expand_counts(counts), ConfigError) << counts;
  }
}

}  // namespace
}  // namespace colossal::cluster
