#include "colossal/io/hub_cache.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "colossal/io/tensor_directory.h"
#include "tests/io/files.h"
#include "tests/support/seccomp_filter.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kVariables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                      "XDG_CACHE_HOME"};

// A cache with a model of two revisions, of which abc123 is the newest.
class HubCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* variable : kVariables) ::unsetenv(variable);
    ::setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
    test::write_text(repository() / "blobs/5eed", "contents");
    test::write_text(repository() / "refs/main", "abc123");
    test::write_text(repository() / "refs/v1.0", "0ld0ld\n");
    for (const char* commit : {"abc123", "0ld0ld"}) {
      fs::create_directories(repository() / "snapshots" / commit / "deep");
      fs::create_symlink("../../blobs/5eed", repository() / "snapshots" / commit / "file");
    }
  }
  void TearDown() override {
    for (const char* variable : kVariables) ::unsetenv(variable);
  }

  fs::path repository() const { return folder_.path() / "models--Org--Tiny-1.5"; }
  fs::path snapshot() const { return repository() / "snapshots/abc123"; }
  int64_t open(const fs::path& folder, const char* name) const {
    return File::open_inside(folder, name, OutsideLinks::refuse).size();
  }

  colossal::test::TemporaryDirectory folder_;
};

TEST_F(HubCacheTest, ANameIsTheNewestSnapshot) {
  EXPECT_EQ(find_model("Org/Tiny-1.5"), snapshot());
  EXPECT_EQ(find_model("Org/Tiny-1.5@main"), snapshot());
  EXPECT_EQ(find_model("Org/Tiny-1.5@v1.0"), repository() / "snapshots/0ld0ld");
  EXPECT_EQ(find_model("Org/Tiny-1.5@0ld0ld"), repository() / "snapshots/0ld0ld");
  EXPECT_EQ(hub_name_of(snapshot()), "Org/Tiny-1.5");
  EXPECT_EQ(hub_name_of(folder_.path()), "");
  // what exists, and what can be no name, stays as it is
  for (const std::string& given :
       {folder_.path().string(), std::string("a/b/c"), std::string("../x"),
        std::string("file.gguf"), std::string("")}) {
    EXPECT_EQ(find_model(given), given);
  }
}

TEST_F(HubCacheTest, WhatIsMissingIsNamedWithTheCommandThatDownloadsIt) {
  const auto refusal = [](const char* given) {
    return test::message_of([&] { find_model(given); });
  };
  EXPECT_THAT(refusal("Qwen/Qwen3-8B"),
              AllOf(HasSubstr("no such folder"), HasSubstr(folder_.path().string()),
                    HasSubstr("hf download Qwen/Qwen3-8B")));
  EXPECT_THAT(refusal("gpt2"), HasSubstr("hf download gpt2"));
  EXPECT_THAT(
      refusal("Org/Tiny-1.5@v2"),
      AllOf(HasSubstr("only 0ld0ld, abc123"), HasSubstr("hf download Org/Tiny-1.5 --revision v2")));
}

TEST_F(HubCacheTest, TheCacheIsWhereTheVariablesSay) {
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HOME", "/home/x", 1);
  EXPECT_EQ(hub_cache(), "/home/x/.cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(hub_cache(), "/xdg/huggingface/hub");
  ::setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(hub_cache(), "/home/x/hf/hub");
  ::setenv("HF_HUB_CACHE", "/hub", 1);
  EXPECT_EQ(hub_cache(), "/hub");
}

// Links may lead to anywhere in the model's folder of the cache, and nowhere else.
TEST_F(HubCacheTest, LinksOfASnapshotStayInItsRepository) {
  test::write_text(folder_ / "secret", "x");
  fs::create_symlink("../../../secret", snapshot() / "out");
  fs::create_symlink(folder_ / "secret", snapshot() / "absolute");
  fs::create_symlink("../../../blobs/5eed", snapshot() / "deep/file");
  EXPECT_EQ(open(snapshot(), "file"), 8);
  EXPECT_EQ(open(snapshot(), "deep/file"), 8);
  EXPECT_EQ(open(snapshot() / "deep", "file"), 8);
  fs::create_directory_symlink(snapshot(), folder_ / "link");
  EXPECT_EQ(open(folder_ / "link", "file"), 8);
  for (const char* name : {"out", "absolute"}) {
    EXPECT_THAT(test::message_of([&] { open(snapshot(), name); }), HasSubstr("leaves its folder"));
  }
}

TEST_F(HubCacheTest, LinksOfASnapshotAreFollowedWhereTheKernelCannotCheckThem) {
  fs::create_symlink("../../refs/main", snapshot() / "other");
  fs::create_symlink("../../blobs/link", snapshot() / "twice");
  fs::create_symlink("../refs/main", repository() / "blobs/link");
  std::jthread([&] {
    if (!colossal::test::filter_system_call(SYS_openat2, SECCOMP_RET_ERRNO | ENOSYS)) {
      GTEST_SKIP() << "no seccomp filters here";
    }
    EXPECT_EQ(open(snapshot(), "file"), 8);
    for (const char* name : {"other", "twice"}) {
      EXPECT_THAT(test::message_of([&] { open(snapshot(), name); }),
                  HasSubstr("cannot be checked"));
    }
  }).join();
}

TEST_F(HubCacheTest, ASnapshotsWeightsAreRead) {
  test::write_safetensors(repository() / "blobs/weights", {{"w", ScalarType::f32, {2}}});
  fs::create_symlink("../../blobs/weights", snapshot() / "model.safetensors");
  EXPECT_THAT(TensorDirectory(snapshot()).names(), testing::ElementsAre("w"));
}

}  // namespace
}  // namespace colossal::io
