"""colossalai.booster.plugin: Colossal-AI's plugins, as settings of colossal.boost()."""
import random
import typing

import torch
import torch.distributed
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from ..._engine import ConfigError
from .._arguments import Honoured, Only, Table, WithoutEffect, honoured, say_once

Settings = dict[str, typing.Any]  # arguments of colossal.boost()

_BUFFERS = WithoutEffect("the engine plans its own transfers")
_COMPILED = WithoutEffect("the model computes as it does without a plugin; choose its kernels in its config (attn_implementation)")
_LOSS_SCALE = WithoutEffect("bf16 and fp32 need no loss scaling")
_NO_FP8 = Only(False, "the engine sends gradients in the precision in which it adds them")
_ONE_GROUP = "the engine shards over all ranks; leave it out"
_PARALLEL = ("a module of your own runs with data parallelism and ZeRO only, here with tp_size=1 and pp_size=1; train one of the families "
             "of docs/models.md by `colossal train` with parallel.tp, parallel.pp and parallel.sp, from the same Hugging Face folder")
_SCALES: Table = {name: _LOSS_SCALE for name in (
    "initial_scale", "min_scale", "growth_factor", "backoff_factor", "growth_interval", "hysteresis", "max_scale")}
_NORM: Table = {"max_norm": Honoured(0.0), "norm_type": Only(2.0, "the engine clips by the norm 2")}
_DDP: Table = {
    "broadcast_buffers": Only(True, "buffers are those of rank 0 at each forward pass in training; leave it out"),
    "bucket_cap_mb": _BUFFERS, "find_unused_parameters": WithoutEffect("parameters without a gradient are always found"),
    "check_reduction": WithoutEffect("the engine checks its reductions itself"),
    "gradient_as_bucket_view": WithoutEffect("gradients are always in the engine's buffers"),
    "static_graph": WithoutEffect("graphs may change from pass to pass")}


class Plugin:
    """A plugin's arguments and what they say to colossal.boost()."""
    _table: Table = {}

    def __init__(self, *positional: typing.Any, **named: typing.Any) -> None:
        self.arguments = honoured(type(self).__name__, self._table, positional, named)
        self.boost_settings()  # refuses what it does not understand

    def boost_settings(self) -> Settings:
        raise NotImplementedError

    def prepare(self, model: torch.nn.Module) -> None:
        """What a plugin does to a model before colossal.boost()."""

    def finish(self, model: torch.nn.Module) -> None:
        """What a plugin does to a model after colossal.boost()."""

    def prepare_dataloader(self, dataset: Dataset[typing.Any], batch_size: int, shuffle: bool = False, seed: int = 1024,
                           drop_last: bool = False, pin_memory: bool = False, num_workers: int = 0,
                           distributed_sampler_cls: typing.Any = None, **options: typing.Any) -> DataLoader[typing.Any]:
        """Batches of this rank's samples. seed: of the workers' random numbers; each worker has its own"""
        if not torch.distributed.is_initialized():
            raise ConfigError("prepare_dataloader() divides the samples among the ranks: call colossalai.launch_from_torch() first")
        sampler: DistributedSampler[typing.Any] = (distributed_sampler_cls or DistributedSampler)(
            dataset, num_replicas=torch.distributed.get_world_size(), rank=torch.distributed.get_rank(), shuffle=shuffle)

        def seed_worker(worker: int) -> None:
            random.seed(seed + worker)
            torch.manual_seed(seed + worker)

        return DataLoader(dataset, batch_size=batch_size, sampler=sampler, worker_init_fn=seed_worker, drop_last=drop_last,
                          pin_memory=pin_memory, num_workers=num_workers, **options)

    def support_no_sync(self) -> bool:
        return True

    def control_precision(self) -> bool:
        return "precision" in self._table

    def _dtype(self) -> str:
        precision = self.arguments["precision"]
        if precision is None:
            say_once(f"{type(self).__name__} without precision= is fp16 in Colossal-AI: here it is bf16")
            return "bf16"
        if precision in ("bf16", "fp32"):
            return typing.cast(str, precision)
        raise ConfigError(f"{type(self).__name__}: precision={precision!r}: the engine computes in \"bf16\" or \"fp32\"; pass "
                          "precision=\"bf16\", which needs no initial_scale and no other loss scaling")


class TorchDDPPlugin(Plugin):
    """ZeRO 0. The precision is the model's, or that of Booster(mixed_precision=)."""
    _table = _DDP | {"fp8_communication": _NO_FP8}

    def boost_settings(self) -> Settings:
        return {"zero": 0}

    def prepare(self, model: torch.nn.Module) -> None:
        say_of_batch_norm(model)


class TorchFSDPPlugin(Plugin):
    """ZeRO 3, 2 or 0, by sharding_strategy."""
    _table: Table = {
        "process_group": Only(None, _ONE_GROUP), "sharding_strategy": Honoured(None), "cpu_offload": Honoured(None),
        "auto_wrap_policy": WithoutEffect("weights are gathered for each module that owns some"), "backward_prefetch": _BUFFERS,
        "mixed_precision": Honoured(None), "ignored_modules": Only(None, "the engine trains all parameters of the model"),
        "param_init_fn": Only(None, "make the model with its weights in main memory"),
        "sync_module_states": WithoutEffect("all ranks always begin with the weights of rank 0"), "fp8_communication": _NO_FP8}
    _STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}
    _DTYPES = {torch.bfloat16: "bf16", torch.float32: "fp32", None: None}

    def boost_settings(self) -> Settings:
        strategy, mixed = self.arguments["sharding_strategy"], self.arguments["mixed_precision"]
        name = "FULL_SHARD" if strategy is None else getattr(strategy, "name", strategy)
        if name not in self._STAGES:
            raise ConfigError(f"TorchFSDPPlugin: sharding_strategy={strategy}: there are {', '.join(self._STAGES)}")
        dtype = getattr(mixed, "param_dtype", None)
        if dtype not in self._DTYPES:
            raise ConfigError(f"TorchFSDPPlugin: mixed_precision with param_dtype={dtype}: use torch.bfloat16 or torch.float32")
        offloads = getattr(self.arguments["cpu_offload"], "offload_params", False)
        offload = {"parameters": "host", "gradients": "host", "optimizer": "host"} if offloads else {}
        return {"zero": self._STAGES[name], "dtype": self._DTYPES[dtype], "offload": offload}


class LowLevelZeroPlugin(Plugin):
    """ZeRO 1 or 2."""
    _table: Table = {
        "stage": Honoured(1), "precision": Honoured(None), **_SCALES, **_NORM, "reduce_bucket_size_in_m": _BUFFERS,
        "communication_dtype": _BUFFERS, "overlap_communication": _BUFFERS, "overlap_allgather": _BUFFERS, "cpu_offload": Honoured(False),
        "master_weights": Only(True, "the engine has masters in fp32; leave it out"),
        "verbose": WithoutEffect("there is nothing more to say"), "cast_inputs": Honoured(True), "fp8_communication": _NO_FP8,
        "use_fp8": Only(False, "the engine computes in bf16 or fp32"), "extra_dp_size": Only(1, _ONE_GROUP)}

    def boost_settings(self) -> Settings:
        if self.arguments["stage"] not in (1, 2):
            raise ConfigError(f"LowLevelZeroPlugin: stage={self.arguments['stage']}: 1 or 2; GeminiPlugin has stage 3")
        return {"zero": self.arguments["stage"], "dtype": self._dtype(), "max_grad_norm": self.arguments["max_norm"],
                "offload": {"optimizer": "host", "gradients": "host"} if self.arguments["cpu_offload"] else {}}

    def finish(self, model: torch.nn.Module) -> None:
        if self.arguments["cast_inputs"]:
            cast_inputs(model)


class GeminiPlugin(Plugin):
    """ZeRO 3; with shard_param_frac=0, ZeRO 2."""
    _POLICY = WithoutEffect("tensors are on the device, but for what offload_optim_frac and offload_param_frac place on the host")
    _table: Table = {
        "chunk_config_dict": Only(None, "the engine plans its own chunks"), "chunk_init_device": _POLICY, "placement_policy": Honoured("static"),
        "enable_gradient_accumulation": WithoutEffect("accumulation always works, by booster.no_sync() or without it"),
        "max_prefetch": WithoutEffect("the engine fetches ahead by itself"), "shard_param_frac": Honoured(1.0),
        "offload_optim_frac": Honoured(0.0), "offload_param_frac": Honoured(0.0), "warmup_non_model_data_ratio": _POLICY,
        "steady_cuda_cap_ratio": _POLICY, "precision": Honoured(None),
        "master_weights": Only(True, "the engine has masters in fp32; leave it out"), "pin_memory": _BUFFERS,
        "force_outputs_fp32": Honoured(False), "strict_ddp_mode": WithoutEffect("the engine gives the same weights at every stage"),
        "search_range_m": _BUFFERS, "hidden_dim": _BUFFERS, "min_chunk_size_m": _BUFFERS, "memstats": _BUFFERS,
        "gpu_margin_mem_ratio": _POLICY, **_SCALES, **_NORM, "tp_size": Only(1, _PARALLEL), "extra_dp_size": Only(1, _ONE_GROUP),
        "enable_all_optimization": _COMPILED, "enable_fused_normalization": _COMPILED, "enable_flash_attention": _COMPILED,
        "enable_sequence_parallelism": Only(False, _PARALLEL), "enable_jit_fused": _COMPILED, "enable_async_reduce": _BUFFERS,
        "use_fp8": Only(False, "the engine computes in bf16 or fp32"), "verbose": WithoutEffect("there is nothing more to say"),
        "fp8_communication": _NO_FP8}

    def boost_settings(self) -> Settings:
        policy, sharded = self.arguments["placement_policy"], self.arguments["shard_param_frac"]
        if policy not in ("static", "auto"):
            raise ConfigError(f"GeminiPlugin: placement_policy={policy!r}: \"static\" or \"auto\"")
        if policy == "auto":
            say_once("GeminiPlugin: placement_policy=\"auto\" places nothing on the host by itself: use offload_optim_frac and "
                     "offload_param_frac where the device is too small")
        if sharded not in (0, 1):
            raise ConfigError(f"GeminiPlugin: shard_param_frac={sharded}: 1 divides all weights among the ranks (ZeRO 3), 0 none (ZeRO 2)")
        fractions = {"optimizer": self.arguments["offload_optim_frac"], "parameters": self.arguments["offload_param_frac"]}
        return {"zero": 3 if sharded else 2, "dtype": self._dtype(), "max_grad_norm": self.arguments["max_norm"],
                "offload": {kind: {"host": fraction} for kind, fraction in fractions.items() if fraction}}

    def finish(self, model: torch.nn.Module) -> None:
        cast_inputs(model)
        if self.arguments["force_outputs_fp32"]:
            model.register_forward_hook(lambda _module, _inputs, outputs: cast(outputs, torch.float32))


class HybridParallelPlugin(Plugin):
    """ZeRO 0 to 2, with tp_size=1 and pp_size=1."""
    _table: Table = {
        "tp_size": Only(1, _PARALLEL), "pp_size": Only(1, _PARALLEL), "sp_size": Only(1, _PARALLEL), "precision": Honoured(None),
        "zero_stage": Honoured(0), "enable_all_optimization": _COMPILED, "enable_fused_normalization": _COMPILED,
        "enable_flash_attention": _COMPILED, "enable_jit_fused": _COMPILED, "enable_sequence_parallelism": Only(False, _PARALLEL),
        "sequence_parallelism_mode": WithoutEffect("there is no sequence parallelism with sp_size=1"),
        "parallel_output": WithoutEffect("logits are whole with tp_size=1"),
        "num_microbatches": WithoutEffect("there is no pipeline with pp_size=1"),
        "microbatch_size": WithoutEffect("there is no pipeline with pp_size=1"), **_SCALES, **_NORM,
        **{"ddp_bucket_cap_mb" if name == "bucket_cap_mb" else name: argument for name, argument in _DDP.items()},
        "zero_bucket_size_in_m": _BUFFERS, "cpu_offload": Honoured(False), "communication_dtype": _BUFFERS,
        "overlap_communication": _BUFFERS, "custom_policy": Only(None, _PARALLEL),
        "pp_style": WithoutEffect("there is no pipeline with pp_size=1"),
        "num_model_chunks": WithoutEffect("there is no pipeline with pp_size=1"), "scheduler_nodes": Only(None, _PARALLEL),
        "num_layers_per_stage": Only(None, _PARALLEL),
        "gradient_checkpoint_config": Only(None, "call model.gradient_checkpointing_enable()"),
        "enable_metadata_cache": WithoutEffect("there is no pipeline with pp_size=1"),
        "make_vocab_size_divisible_by": WithoutEffect("the vocabulary is not divided with tp_size=1"),
        "dp_outside": WithoutEffect("data parallelism is the only axis"), "overlap_p2p": WithoutEffect("there is no pipeline with pp_size=1"),
        "overlap_allgather": _BUFFERS, "fp8_communication": _NO_FP8, "use_fp8": Only(False, "the engine computes in bf16 or fp32"),
        "inner_ring_size": Only(None, _PARALLEL)}
    tp_size = pp_size = sp_size = 1

    def boost_settings(self) -> Settings:
        stage = self.arguments["zero_stage"]
        if stage not in (0, 1, 2):
            raise ConfigError(f"HybridParallelPlugin: zero_stage={stage}: 0, 1 or 2; GeminiPlugin has stage 3")
        return {"zero": stage, "dtype": self._dtype(), "max_grad_norm": self.arguments["max_norm"],
                "offload": {"optimizer": "host", "gradients": "host"} if self.arguments["cpu_offload"] else {}}

    @property
    def dp_size(self) -> int:
        return torch.distributed.get_world_size()

    def prepare(self, model: torch.nn.Module) -> None:
        say_of_batch_norm(model)

    def finish(self, model: torch.nn.Module) -> None:
        cast_inputs(model)


class MoeHybridParallelPlugin(Plugin):
    """Only refused: experts are divided by `colossal train`."""

    def __init__(self, *positional: typing.Any, **named: typing.Any) -> None:
        raise ConfigError("MoeHybridParallelPlugin: a module of your own has no expert parallelism: use LowLevelZeroPlugin or GeminiPlugin, or "
                          "train one of the families of docs/models.md by `colossal train` with parallel.ep")


def say_of_batch_norm(model: torch.nn.Module) -> None:
    if any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        say_once("batch norm normalizes the rows of each rank by themselves: Colossal-AI would convert it by "
                 "torch.nn.SyncBatchNorm.convert_sync_batchnorm(), which you may do before booster.boost()")


def cast_inputs(model: torch.nn.Module) -> None:
    """Gives the model its inputs of floating point in the type of its weights."""
    dtype = next(model.parameters()).dtype
    model.register_forward_pre_hook(lambda _module, inputs, named: (cast(inputs, dtype), cast(named, dtype)), with_kwargs=True)


def cast(value: typing.Any, dtype: torch.dtype) -> typing.Any:
    """Copies containers, and tensors of floating point in another type."""
    def of_tensor(each: typing.Any) -> typing.Any:
        return each.to(dtype) if isinstance(each, torch.Tensor) and each.is_floating_point() else each

    return torch.utils._pytree.tree_map(of_tensor, value)
