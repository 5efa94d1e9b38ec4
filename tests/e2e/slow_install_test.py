"""find_package(colossal) works from an install tree."""
import os
import shutil
import subprocess
import unittest

from harness import BUILD, ROOT, EndToEndTest

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer CXX)
find_package(colossal REQUIRED)
add_executable(train_module train_module.cpp)
target_link_libraries(train_module PRIVATE colossal::colossal)
"""


class Install(EndToEndTest):
    def run_command(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_program_of_its_own_builds_and_runs(self):
        prefix, consumer = self.directory / "prefix", self.directory / "consumer"
        self.run_command("cmake", "--install", BUILD, "--prefix", prefix)
        self.run_command(prefix / "bin/colossal", "--help")
        consumer.mkdir()
        (consumer / "CMakeLists.txt").write_text(PROJECT)
        shutil.copy(ROOT / "examples/train_module.cpp", consumer)
        self.run_command("cmake", "-S", consumer, "-B", consumer / "build", "-G", "Ninja",
                         f"-DCMAKE_PREFIX_PATH={prefix}")
        self.run_command("cmake", "--build", consumer / "build")
        self.assertIn("step 300", self.run_command(consumer / "build/train_module"))


if __name__ == "__main__":
    unittest.main()
