"""The cases of gpu_cases.py: all on a GPU; on an emulated one, those that differ most in how they use it."""
import unittest

import gpu_cases

EMULATED = [f"test_{name}" for name in (
    "gpt2_one_rank", "gpt2_dropout", "llama_all_on_host", "llama_all_on_nvme", "llama_zero3", "gpt2_pp_tp", "llama_ring",
    "gpt2_tp_2d", "nccl_zero3", "nccl_pp_tp", "nccl_generates", "nccl_hang_is_told", "serves", "nccl_serves", "llama_zero2_host", "nccl_zero1_host", "experts",
    "generates_with_experts_on_host", "bf16",
    "says_once_what_has_no_kernel", "evaluates", "goes_on_with_a_run_of_the_cpu")]


def load_tests(loader, tests, pattern):
    return gpu_cases.suite(gpu_cases.all_names() if gpu_cases.HAS_GPU else EMULATED)


if __name__ == "__main__":
    unittest.main()
