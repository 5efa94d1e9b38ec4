"""FLOP/s of the best and of the median product of [1024, 768] by [768, 3072] within a second, as one
JSON line: what shares of the machine's rate are shares of.   gemm.py DTYPE THREADS"""
import json
import statistics
import sys
import time

import torch

dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
torch.set_num_threads(int(sys.argv[2]))
rows, inner, columns = 1024, 768, 3072
a, b = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
c = torch.empty(rows, columns, dtype=dtype)
seconds = []
end = time.perf_counter() + 1
for repeat in range(10**6):
    start = time.perf_counter()
    torch.mm(a, b, out=c)
    now = time.perf_counter()
    seconds.append(now - start)
    if now > end and repeat >= 3:
        break
flops = 2 * rows * inner * columns
print(json.dumps({"gemm_flops": flops / min(seconds), "gemm_flops_median": flops / statistics.median(seconds)}))
