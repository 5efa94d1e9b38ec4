#include "colossal/io/checkpoint_directory.h"

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "tests/io/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::message_of;
using test::write_text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DirectoryWriterTest : public ::testing::Test {
 protected:
  fs::path target() const { return folder_ / "step-000100"; }

  void save(const fs::path& path, const std::string& text) {
    DirectoryWriter writer = DirectoryWriter::create(path);
    writer.write_file("config.json", text);
    writer.write_file("training_state/deep/state.json", "{}");
    writer.sync();
    writer.publish(writer.written());
  }

  size_t entries() const { return std::distance(fs::directory_iterator(folder_.path()), {}); }

  colossal::test::TemporaryDirectory folder_{colossal::test::Storage::memory};
};

TEST_F(DirectoryWriterTest, NothingIsVisibleUntilItIsPublished) {
  DirectoryWriter writer = DirectoryWriter::create(target());
  writer.write_file("config.json", "{}");
  EXPECT_FALSE(fs::exists(target()));
  EXPECT_THAT(writer.temporary_path().filename().string(),
              ::testing::MatchesRegex("\\.step-000100\\.tmp-[0-9a-f]{16}"));
  EXPECT_EQ(writer.temporary_path().parent_path(), folder_.path());
  EXPECT_THAT(list_checkpoints(folder_.path()), IsEmpty());
  writer.sync();
  writer.publish(writer.written());
  EXPECT_EQ(read_file(target() / "config.json"), "{}");
  EXPECT_THAT(verify_directory(target()), IsEmpty());
  EXPECT_EQ(entries(), 1U);
}

TEST_F(DirectoryWriterTest, RanksWriteOneFileTogether) {
  constexpr int64_t kRanks = 4, kPart = 100000;
  DirectoryWriter first = DirectoryWriter::create(folder_ / "deep/er/step-000001");
  first.create_file("model.safetensors", kRanks * kPart);
  std::vector<Manifest> manifests(kRanks);
  {
    std::vector<std::jthread> ranks;
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        DirectoryWriter writer = DirectoryWriter::join(first.temporary_path());
        const std::string part(kPart, static_cast<char>('a' + rank));
        writer.write("model.safetensors", rank * kPart, bytes_of(part));
        writer.write_file(fmt::format("training_state/rank-{}", rank), part.substr(0, 10));
        writer.sync();
        manifests[rank] = Manifest::parse(writer.written().to_json(), "rank");
      });
    }
  }
  first.sync();
  Manifest all = first.written();
  for (const Manifest& manifest : manifests) all.add(manifest);
  first.publish(all);
  const auto path = folder_ / "deep/er/step-000001";
  EXPECT_THAT(verify_directory(path), IsEmpty());
  EXPECT_EQ(fs::file_size(path / "model.safetensors"), kRanks * kPart);
  EXPECT_EQ(read_file(path / "training_state/rank-3"), "dddddddddd");
}

TEST_F(DirectoryWriterTest, ACopyIsACheckpointToo) {
  save(target(), std::string(40'000'000, 'x'));
  const fs::path copy = folder_ / "copies/step-000100";
  copy_checkpoint(target(), copy);
  EXPECT_THAT(verify_directory(copy), IsEmpty());
  EXPECT_EQ(read_file(copy / "config.json"), read_file(target() / "config.json"));
  EXPECT_EQ(read_file(copy / "training_state/deep/state.json"), "{}");
}

TEST_F(DirectoryWriterTest, ADamagedCheckpointIsNotCopied) {
  save(target(), "text");
  write_text(target() / "config.json", "tex");
  const fs::path copy = folder_ / "copies/step-000100";
  EXPECT_THAT(message_of([&] { copy_checkpoint(target(), copy); }), HasSubstr("is damaged"));
  EXPECT_FALSE(fs::exists(copy));
}

TEST_F(DirectoryWriterTest, SavingAStepAgainReplacesIt) {
  save(target(), "old");
  save(target(), "new");
  EXPECT_EQ(read_file(target() / "config.json"), "new");
  EXPECT_THAT(verify_directory(target()), IsEmpty());
  EXPECT_EQ(entries(), 1U);
}

TEST_F(DirectoryWriterTest, AnotherProgramsFolderIsNeverReplaced) {
  write_text(target() / "thesis.tex", "years of work");
  EXPECT_THAT(message_of([&] { save(target(), "x"); }),
              AllOf(HasSubstr("was not written by this program"), HasSubstr("another name")));
  write_text(folder_ / "file", "x");
  EXPECT_THAT(message_of([&] { save(folder_ / "file", "x"); }), HasSubstr("was not written by"));
  fs::create_directory_symlink(target(), folder_ / "link");
  EXPECT_THAT(message_of([&] { save(folder_ / "link", "x"); }), HasSubstr("was not written by"));
  fs::create_directory(folder_ / "empty");
  save(folder_ / "empty", "x");
  EXPECT_EQ(read_file(target() / "thesis.tex"), "years of work");
  EXPECT_EQ(entries(), 4U);
}

TEST_F(DirectoryWriterTest, WhatIsNotPublishedIsRemoved) {
  save(target(), "old");
  {
    DirectoryWriter writer = DirectoryWriter::create(target());
    writer.write_file("a/b", "x");
    DirectoryWriter moved = std::move(writer);
    const DirectoryWriter other = DirectoryWriter::join(moved.temporary_path());
    EXPECT_EQ(entries(), 2U);
  }
  EXPECT_EQ(entries(), 1U);
  DirectoryWriter writer = DirectoryWriter::create(target());
  writer.discard();
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(read_file(target() / "config.json"), "old");
}

TEST_F(DirectoryWriterTest, AForgottenPartIsNotPublished) {
  const auto publish = [&](auto write) {
    DirectoryWriter writer = DirectoryWriter::create(target());
    write(writer);
    writer.sync();
    return message_of([&] { writer.publish(writer.written()); });
  };
  EXPECT_THAT(publish([](auto& writer) {
                writer.create_file("w", 10);
                writer.write("w", 0, bytes_of("01234"));
              }),
              HasSubstr("w is 10 bytes long, 5 were written"));
  EXPECT_THAT(publish([](auto& writer) {
                writer.create_file("w", 10);
                writer.write("w", 5, bytes_of("56789"));
              }),
              HasSubstr("bytes 0 to 5 of w were written by no rank"));
  EXPECT_THAT(publish([](auto& writer) {
                writer.create_file("w", 5);
                writer.write("w", 0, bytes_of("01234"));
                writer.write("w", 3, bytes_of("34"));
              }),
              HasSubstr("written twice"));
  EXPECT_THAT(publish([](auto& writer) {
                DirectoryWriter other = DirectoryWriter::join(writer.temporary_path());
                other.write_file("sub/untold", "x");
              }),
              HasSubstr("sub/untold is in no rank's manifest"));
  EXPECT_THAT(publish([](auto& writer) {
                writer.write_file("gone", "x");
                fs::remove(writer.temporary_path() / "gone");
              }),
              HasSubstr("has no file gone"));
  EXPECT_FALSE(fs::exists(target()));
}

TEST_F(DirectoryWriterTest, OnlyTheCreatorPublishesAfterSyncAndOnce) {
  DirectoryWriter writer = DirectoryWriter::create(target());
  DirectoryWriter other = DirectoryWriter::join(writer.temporary_path());
  EXPECT_THAT(message_of([&] { other.publish({}); }), HasSubstr("joined, not created"));
  writer.write_file("a", "x");
  EXPECT_THAT(message_of([&] { writer.publish(writer.written()); }), HasSubstr("sync() comes"));
  writer.sync();
  writer.publish(writer.written());
  EXPECT_THAT(message_of([&] { writer.publish(writer.written()); }), HasSubstr("already"));
}

TEST_F(DirectoryWriterTest, FileNamesStayInside) {
  DirectoryWriter writer = DirectoryWriter::create(target());
  for (const char* name : {"../a", "/a", "a/../b", ".hidden", "", "manifest.json"}) {
    EXPECT_THROW(writer.create_file(name, 1), InternalError) << name;
  }
  EXPECT_THAT(message_of([&] { writer.write("missing", 0, bytes_of("x")); }),
              HasSubstr("missing: cannot open for writing"));
}

class VerifyTest : public DirectoryWriterTest {
 protected:
  void SetUp() override {
    for (const int64_t step : {100, 200}) {
      DirectoryWriter writer = DirectoryWriter::create(folder_ / checkpoint_name(step));
      for (const char* shard : {"model-1.safetensors", "model-2.safetensors"}) {
        writer.create_file(shard, 3000);
        for (int64_t part = 0; part < 3; ++part) {
          std::string data(1000, '\0');
          for (char& byte : data) byte = static_cast<char>(random_());
          writer.write(shard, part * 1000, bytes_of(data));
        }
      }
      writer.write_file("training_state/state.json", "{\"step\": 100}");
      writer.sync();
      writer.publish(writer.written());
    }
  }

  std::vector<std::string> file_names() const {
    return {"manifest.json", "model-1.safetensors", "model-2.safetensors",
            "training_state/state.json"};
  }

  std::mt19937 random_{11};
};

TEST_F(VerifyTest, AnyFlippedBitIsFoundInItsRange) {
  for (int i = 0; i < 1000; ++i) {
    const std::string name = file_names()[random_() % 4];
    const std::string good = read_file(target() / name);
    std::string bad = good;
    const size_t place = random_() % bad.size();
    bad[place] = static_cast<char>(bad[place] ^ (1 << random_() % 8));
    write_text(target() / name, bad);
    const auto found = verify_directory(target());
    ASSERT_EQ(found.size(), 1U) << name << " at " << place;
    EXPECT_EQ(found[0].file, name);
    EXPECT_THAT(found[0].what, HasSubstr((target() / name).string()));
    const bool in_ranges = name.starts_with("model");
    EXPECT_EQ(found[0].offset, in_ranges ? static_cast<int64_t>(place) / 1000 * 1000 : 0);
    write_text(target() / name, good);
  }
  EXPECT_THAT(verify_directory(target()), IsEmpty());
}

TEST_F(VerifyTest, AnyTruncationIsFound) {
  for (int i = 0; i < 100; ++i) {
    const std::string name = file_names()[random_() % 4];
    const std::string good = read_file(target() / name);
    write_text(target() / name, std::string_view(good).substr(0, random_() % good.size()));
    const auto found = verify_directory(target());
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].file, name);
    write_text(target() / name, good);
  }
}

TEST_F(VerifyTest, MissingSwappedAndForeignFilesAreFound) {
  const auto one = target() / "model-1.safetensors";
  const auto two = target() / "model-2.safetensors";
  fs::rename(one, folder_ / "kept");
  EXPECT_THAT(verify_directory(target())[0].what, HasSubstr("model-1.safetensors: cannot open"));
  fs::copy(folder_ / "step-000200/model-1.safetensors", one);
  EXPECT_EQ(verify_directory(target()).size(), 3U) << "a shard of another step";
  fs::copy(two, one, fs::copy_options::overwrite_existing);
  fs::copy(folder_ / "kept", two, fs::copy_options::overwrite_existing);
  EXPECT_EQ(verify_directory(target()).size(), 6U) << "two shards swapped";
  fs::remove(target() / kManifestFile);
  EXPECT_EQ(verify_directory(target())[0].file, kManifestFile);
  EXPECT_EQ(verify_directory(folder_ / "missing")[0].file, kManifestFile);
}

TEST_F(VerifyTest, FilesThatTheManifestDoesNotNameAreLeftAlone) {
  write_text(target() / "notes.txt", "mine");
  EXPECT_THAT(verify_directory(target()), IsEmpty());
}

}  // namespace
}  // namespace colossal::io
