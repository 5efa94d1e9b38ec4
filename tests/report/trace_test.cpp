#include "colossal/report/trace.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "colossal/base/error.h"
#include "tests/report/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using nlohmann::json;

TraceEvent event(int rank, const std::string& thread, double start) {
  return {"all_reduce",
          "communication",
          start,
          2.5,
          rank,
          thread,
          {{"bytes", int64_t{1} << 40}, {"axis", "dp"}, {"rate", 0.5}}};
}

std::vector<json> of_phase(const json& events, const char* phase) {
  std::vector<json> found;
  for (const json& one : events) {
    if (one.at("ph") == phase) found.push_back(one);
  }
  return found;
}

// Parses an array that is not closed, as Perfetto does.
json parse_unclosed(const std::string& text) {
  return json::parse(text + "]");
}

TEST(Trace, CompleteEventsWithTheirArguments) {
  const test::TemporaryDirectory scratch;
  TraceWriter trace(scratch / "trace.json");
  trace.write(event(1, "comm", 10.25));
  trace.close();
  const auto events = of_phase(json::parse(read_file(scratch / "trace.json")), "X");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0], json::parse(R"({"name": "all_reduce", "cat": "communication", "ph": "X",
      "ts": 10.25, "dur": 2.5, "pid": 1, "tid": 1,
      "args": {"bytes": 1099511627776, "axis": "dp", "rate": 0.5}})"));
}

TEST(Trace, RanksAndThreadsAreNamedOnce) {
  const test::TemporaryDirectory scratch;
  TraceWriter trace(scratch / "trace.json");
  for (const double start : {0.0, 5.0}) {
    for (const int rank : {0, 1}) {
      trace.write(event(rank, "compute", start));
      trace.write(event(rank, "comm", start));
    }
  }
  trace.close();
  const json events = json::parse(read_file(scratch / "trace.json"));
  std::map<std::string, std::vector<std::string>> names;
  for (const json& one : of_phase(events, "M")) {
    if (one["args"].contains("name")) names[one["name"]].push_back(one["args"]["name"]);
  }
  EXPECT_THAT(names["process_name"], testing::ElementsAre("rank 0", "rank 1"));
  EXPECT_THAT(names["thread_name"], testing::ElementsAre("compute", "comm", "compute", "comm"));
  std::set<std::pair<int, int>> rows;
  for (const json& one : of_phase(events, "X"))
    rows.emplace(one["pid"].get<int>(), one["tid"].get<int>());
  EXPECT_EQ(rows.size(), 4u);
}

TEST(Trace, AnEmptyOneIsValid) {
  const test::TemporaryDirectory scratch;
  { TraceWriter trace(scratch / "trace.json"); }
  EXPECT_EQ(json::parse(read_file(scratch / "trace.json")), json::array());
}

// A process that dies may leave the file after any flush, including those of the writer itself.
TEST(Trace, WithoutItsEndItIsAnArrayThatIsNotClosed) {
  const test::TemporaryDirectory scratch;
  TraceWriter trace(scratch / "trace.json");
  trace.flush();
  EXPECT_EQ(parse_unclosed(read_file(scratch / "trace.json")), json::array());
  size_t seen = 0;
  for (int i = 0; i < 5000; ++i) {
    trace.write(event(0, "compute", i));
    if (i % 500 == 0) {
      const size_t now = of_phase(parse_unclosed(read_file(scratch / "trace.json")), "X").size();
      EXPECT_GE(now, seen);
      seen = now;
    }
  }
  EXPECT_GT(seen, 3000u);  // of 5,000; the writer flushes every 64 KiB
  trace.flush();
  EXPECT_EQ(of_phase(parse_unclosed(read_file(scratch / "trace.json")), "X").size(), 5000u);
}

TEST(Trace, HostileNames) {
  const test::TemporaryDirectory scratch;
  TraceWriter trace(scratch / "trace.json");
  TraceEvent hostile = event(0, "a\"b\\\n\xFF", 0);
  hostile.name = "\"},{\x01";
  trace.write(hostile);
  trace.close();
  const auto events = of_phase(json::parse(read_file(scratch / "trace.json")), "X");
  EXPECT_EQ(events.at(0)["name"], "\"},{\x01");
}

TEST(Trace, SharedByThreads) {
  const test::TemporaryDirectory scratch;
  TraceWriter trace(scratch / "trace.json");
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&trace, rank] {
      for (int i = 0; i < 1000; ++i) trace.write(event(rank, "compute", i));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  trace.close();
  EXPECT_EQ(of_phase(json::parse(read_file(scratch / "trace.json")), "X").size(), 4000u);
}

TEST(Trace, Errors) {
  EXPECT_THROW(TraceWriter("/nowhere/trace.json"), IoError);
  TraceWriter full("/dev/full");
  full.write(event(0, "compute", 0));
  EXPECT_THROW(full.close(), IoError);
  EXPECT_THROW(full.write(event(0, "compute", 0)), InternalError);
}

}  // namespace
}  // namespace colossal::report
