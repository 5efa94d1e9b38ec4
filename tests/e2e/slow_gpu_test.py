"""All cases of gpu_cases.py on an emulated GPU of which a third of the kernels start late."""
import unittest

import gpu_cases


def load_tests(loader, tests, pattern):
    for environment in (gpu_cases.GPU_ENVIRONMENT, gpu_cases.NCCL_ENVIRONMENT):
        environment |= {"EMULATED_GPU_DELAY_PERCENT": "30", "EMULATED_GPU_DELAY_MICROSECONDS": "2000"}
    return gpu_cases.suite([] if gpu_cases.HAS_GPU else gpu_cases.all_names())


if __name__ == "__main__":
    unittest.main()
