"""Prints weights and what bitsandbytes' nf4 with double quantization makes of them, by its formula in PyTorch.

For each case three lines: its rows and columns, its weights in fp32, and the numbers that are kept of them.
"""
import torch

BLOCK, SCALE_BLOCK = 64, 256
LEVELS = torch.tensor([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])


def dynamic_levels():
    """bitsandbytes.functional.create_dynamic_map() with its defaults."""
    levels = [0, 1.0]
    for i in range(7):
        borders = torch.linspace(0.1, 1, 2**i + 1, dtype=torch.float64)
        means = 10.0**(i - 6) * (borders[:-1] + borders[1:]) / 2
        levels += means.tolist() + (-means).tolist()
    return torch.tensor(sorted(levels), dtype=torch.float32)


def nearest(levels, numbers):
    """Indices; the levels are few, the numbers at most some thousands."""
    return (numbers[:, None] - levels).abs().argmin(1)


def by_blocks(numbers, size):
    """[blocks, size], the last one filled up with zeros."""
    return torch.nn.functional.pad(numbers, (0, -len(numbers) % size)).view(-1, size)


def numbers_of(weight):
    """Blocks lie within rows, as they do in bitsandbytes where 64 divides the inputs."""
    rows = [by_blocks(row, BLOCK) for row in weight]
    blocks = torch.cat(rows)
    scales = blocks.abs().amax(1)
    codes = nearest(LEVELS, (blocks / scales.clamp_min(1e-30)[:, None]).flatten()).view(blocks.shape)
    mean = scales.double().mean().float()
    grouped = by_blocks(scales - mean, SCALE_BLOCK)
    most = grouped.abs().amax(1)
    levels = dynamic_levels()
    scale_codes = nearest(levels, (grouped / most.clamp_min(1e-30)[:, None]).flatten()).view(grouped.shape)
    kept = (levels[scale_codes] * most[:, None]).flatten()[:len(scales)] + mean
    numbers = LEVELS[codes] * kept[:, None]
    return numbers.view(len(weight), -1)[:, :weight.shape[1]].contiguous()


def main():
    torch.manual_seed(3)
    weights = [
        torch.randn(48, 640) * 0.02,
        torch.randn(37, 150) * torch.rand(37, 1),
        torch.randn(5, 36),
        torch.cat([torch.zeros(3, 128), torch.randn(4, 128)]),
    ]
    for weight in weights:
        print(*weight.shape)
        print(*weight.flatten().tolist())
        print(*numbers_of(weight).flatten().tolist())


if __name__ == "__main__":
    main()
