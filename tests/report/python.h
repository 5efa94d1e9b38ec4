// The oracle: the project's Python, which runs one of the scripts next to the tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/run_process.h"

namespace colossal::report {

// What the script prints; a script that fails, fails the test with its output.
inline std::string run_python(const std::string& script, const std::filesystem::path& argument) {
  const std::string root = COLOSSAL_TEST_SOURCE_DIR;
  const test::ProcessResult result = test::run_process(
      {root + "/.venv/bin/python", root + "/tests/report/" + script, argument.string()});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

}  // namespace colossal::report
