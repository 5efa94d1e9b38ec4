// The same program under other launchers than our own.
#include <gmock/gmock.h>

#include "tests/cluster/test_process.h"

namespace colossal::cluster {
namespace {

using testing::ContainsRegex;

constexpr auto kSlowStart = 60s;

TEST(Launchers, torchrun) {
  TestProcess torchrun({COLOSSAL_TEST_SOURCE_DIR "/.venv/bin/python", "-m", "torch.distributed.run",
                        "--nproc-per-node=2", "--standalone", "--no-python", rank_program(),
                        "print-environment"});
  ASSERT_EQ(torchrun.wait(kSlowStart), 0) << torchrun.output();
  for (const char* rank : {"0", "1"}) {
    EXPECT_THAT(torchrun.output(),
                ContainsRegex(std::string("rank=") + rank + " size=2 local=" + rank +
                              "/2 hosts=1 address=[^ ]+ interface=127.0.0.1 port=set served=true "
                              "listens=false prefix=.*/0 launcher=torchrun"));
  }
}

TEST(Launchers, mpirun) {
  TestProcess mpirun({"mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", rank_program(),
                      "print-environment"});
  ASSERT_EQ(mpirun.wait(kSlowStart), 0) << mpirun.output();
  for (const char* rank : {"0", "1"}) {
    EXPECT_THAT(mpirun.output(),
                ContainsRegex(std::string("rank=") + rank + " size=2 local=" + rank +
                              "/2 hosts=1 address=127.0.0.1 interface=127.0.0.1 port=set "
                              "served=false listens=false prefix=mpirun/.+ launcher=Open MPI"));
  }
}

TEST(Launchers, nobody) {
  TestProcess alone({rank_program(), "print-environment"});
  EXPECT_EQ(alone.wait(), 2);
  EXPECT_THAT(alone.output(), testing::HasSubstr("nobody launched this process"));
}

}  // namespace
}  // namespace colossal::cluster
