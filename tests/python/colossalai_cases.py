"""colossal.colossalai: a program in the manner of Colossal-AI's examples, at every plugin, beside DistributedDataParallel; what it
saves at one plugin goes on at another; what it asks for is done, said to have no effect, or refused.

  python -m torch.distributed.run --standalone --nproc-per-node=2 colossalai_cases.py
"""
import contextlib
import copy
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed
import transformers
from torch.distributed.fsdp import CPUOffload, MixedPrecision, ShardingStrategy
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

import colossal
import colossal.colossalai as colossalai
from colossal.colossalai.accelerator import get_accelerator
from colossal.colossalai.booster import Booster
from colossal.colossalai.booster.plugin import (
    GeminiPlugin, HybridParallelPlugin, LowLevelZeroPlugin, MoeHybridParallelPlugin, TorchDDPPlugin, TorchFSDPPlugin)
from colossal.colossalai.cluster import DistCoordinator
from colossal.colossalai.lazy import LazyInitContext
from colossal.colossalai.logging import get_dist_logger
from colossal.colossalai.nn import lr_scheduler as schedulers
from colossal.colossalai.nn.lr_scheduler import CosineAnnealingWarmupLR
from colossal.colossalai.nn.optimizer import CPUAdam, FusedAdam, FusedSGD, HybridAdam, Lamb, Lars
from ranks import shared_directory

STEPS, PARTS, NORM = 4, 2, 0.5
LLAMA = LlamaConfig(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=True)
GPT2 = GPT2Config(vocab_size=61, n_positions=32, n_embd=24, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                  bos_token_id=0, eos_token_id=0)
PLUGINS = {
    "ddp": TorchDDPPlugin,
    "zero 1": lambda: LowLevelZeroPlugin(stage=1, precision="fp32", max_norm=NORM),
    "zero 2": lambda: LowLevelZeroPlugin(2, "fp32", max_norm=NORM, cpu_offload=True, initial_scale=2**5, verbose=True),
    "gemini": lambda: GeminiPlugin(precision="fp32", max_norm=NORM, placement_policy="auto", max_prefetch=1),
    "gemini, offloaded": lambda: GeminiPlugin(precision="fp32", max_norm=NORM, offload_optim_frac=1.0, offload_param_frac=0.5),
    "gemini, weights on all": lambda: GeminiPlugin(precision="fp32", max_norm=NORM, shard_param_frac=0),
    "hybrid": lambda: HybridParallelPlugin(tp_size=1, pp_size=1, zero_stage=1, precision="fp32", max_norm=NORM, sp_size=None,
                                           enable_all_optimization=True),
    "fsdp": lambda: TorchFSDPPlugin(sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, cpu_offload=CPUOffload(offload_params=True)),
}
CLIPPED = {name for name in PLUGINS if name not in ("ddp", "fsdp")}  # the others have no max_norm


class Tokens(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.randint(1, 61, (STEPS * PARTS * 2 * 3, 11), generator=torch.Generator().manual_seed(4))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def model_of(config, dtype=torch.float32):
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(config).to(dtype)


def groups(model):
    return [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]


@functools.cache
def reference(kind, clips, dtype=torch.float32):
    """Losses of a loop in plain torch, and its weights."""
    model = model_of(LLAMA if kind == "llama" else GPT2, dtype)
    optimizer = torch.optim.AdamW(groups(model), lr=1e-2, eps=1e-4)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 if step == 0 else 1.0)
    parallel, losses = DistributedDataParallel(model), []
    loader = TorchDDPPlugin().prepare_dataloader(Tokens(), batch_size=3)
    for number, batch in enumerate(loader):
        last = number % PARTS == PARTS - 1
        with contextlib.nullcontext() if last else parallel.no_sync():
            loss = parallel(**batch).loss / PARTS
            loss.backward()
        losses.append(loss.item())
        if last:
            if clips:
                torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
            optimizer.step()
            warmup.step()
            optimizer.zero_grad()
    return losses, copy.deepcopy(model.state_dict())


class Run:
    """What Colossal-AI's programs do."""

    def __init__(self, plugin, config=LLAMA, dtype=torch.float32, kind=HybridAdam, mixed_precision=None):
        self.plugin, self.booster = plugin, Booster(plugin=plugin, mixed_precision=mixed_precision)
        with LazyInitContext(default_device=get_accelerator().get_current_device()):
            model = model_of(config, dtype)
        optimizer = kind(groups(model), lr=1e-2, eps=1e-4)
        scheduler = schedulers.LambdaLR(optimizer, STEPS, lr_lambda=lambda step: 0.5 if step == 0 else 1.0)
        loader = plugin.prepare_dataloader(Tokens(), batch_size=3)
        self.criterion = lambda outputs, inputs: outputs.loss
        self.model, self.optimizer, self.criterion, self.loader, self.scheduler = self.booster.boost(
            model, optimizer, self.criterion, loader, scheduler)
        assert self.model is model and self.model.unwrap() is model

    def train(self, steps=range(STEPS)):
        losses = []
        for number, batch in enumerate(self.loader):
            if number // PARTS not in steps:
                continue
            last = number % PARTS == PARTS - 1
            with contextlib.nullcontext() if last else self.booster.no_sync(self.model, self.optimizer):
                loss = self.criterion(self.model(**batch), None) / PARTS
                self.booster.backward(loss, self.optimizer)
            losses.append(loss.item())
            if last:
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
        return losses

    def weights(self):
        with colossal.gather(self.model):
            return copy.deepcopy(self.model.state_dict())


class Tests(unittest.TestCase):
    def assert_weights(self, found, expected, tolerance=1e-5):
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)

    def refuses(self, text, function, *arguments, **named):
        with self.assertRaisesRegex((ValueError, AttributeError), text):
            function(*arguments, **named)


class Plugins(Tests):
    def test_every_plugin_equals_plain_torch(self):
        for name, make in PLUGINS.items():
            with self.subTest(name):
                losses, weights = reference("llama", name in CLIPPED)
                run = Run(make())
                torch.testing.assert_close(run.train(), losses, rtol=1e-5, atol=0)
                self.assert_weights(run.weights(), weights)

    def test_other_models_and_precisions(self):
        losses, weights = reference("gpt2", False, torch.float64)
        run = Run(TorchDDPPlugin(), GPT2, torch.float64, FusedAdam)
        torch.testing.assert_close(run.train(), losses, rtol=1e-9, atol=0)
        self.assert_weights(run.weights(), weights, 1e-9)
        exact, _ = reference("llama", True)
        for plugin in (GeminiPlugin(max_norm=NORM), LowLevelZeroPlugin(max_norm=NORM, precision="bf16")):
            run = Run(plugin, kind=CPUAdam)
            torch.testing.assert_close(run.train(), exact, rtol=2e-2, atol=0)
            self.assertEqual(next(run.model.parameters()).dtype, torch.bfloat16)
        run = Run(TorchDDPPlugin(), mixed_precision="bf16")
        self.assertEqual(next(run.model.parameters()).dtype, torch.bfloat16)
        run = Run(TorchFSDPPlugin(mixed_precision=MixedPrecision(param_dtype=torch.bfloat16)))
        self.assertEqual(next(run.model.parameters()).dtype, torch.bfloat16)

    def test_inputs_are_cast_and_outputs_too(self):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = HybridAdam(model.parameters())
        Booster(plugin=GeminiPlugin(precision="bf16", force_outputs_fp32=True)).boost(model, optimizer)
        self.assertEqual(model(torch.ones(3, 4)).dtype, torch.float32)
        model = torch.nn.Linear(4, 2)
        Booster(plugin=LowLevelZeroPlugin(precision="bf16", cast_inputs=False)).boost(model, HybridAdam(model.parameters()))
        with self.assertRaises(RuntimeError):
            model(torch.ones(3, 4))

    def test_functions_of_the_optimizer(self):
        run = Run(LowLevelZeroPlugin(precision="fp32"))
        batch = next(iter(run.loader))
        run.optimizer.backward(run.model(**batch).loss)
        norm = run.optimizer.clip_grad_by_norm(0.25)
        run.optimizer.step()
        self.assertAlmostEqual(run.optimizer.get_grad_norm(), norm)
        self.assertGreater(norm, 0.25)

    def test_optimizers_learn(self):
        for kind, rate in ((Lamb, 1e-2), (Lars, 1.0), (FusedSGD, 0.1), (lambda *a, **k: HybridAdam(*a, adamw_mode=False, **k), 1e-2)):
            model = model_of(LLAMA)
            optimizer = kind(model.parameters(), lr=rate)
            booster = Booster(plugin=LowLevelZeroPlugin(precision="fp32"))
            model, optimizer, *_ = booster.boost(model, optimizer)
            batch, losses = next(iter(booster.plugin.prepare_dataloader(Tokens(), batch_size=3))), []
            for _ in range(6):
                losses.append(model(**batch).loss)
                booster.backward(losses[-1], optimizer)
                optimizer.step()
                optimizer.zero_grad()
            self.assertLess(losses[-1], losses[0])

    def test_state_on_nvme(self):
        folder = tempfile.mkdtemp()
        run = Run(GeminiPlugin(precision="fp32", max_norm=NORM), kind=functools.partial(
            HybridAdam, nvme_offload_fraction=1.0, nvme_offload_dir=folder))
        torch.testing.assert_close(run.train(), reference("llama", True)[0], rtol=1e-5, atol=0)
        model = model_of(LLAMA)
        self.refuses("needs nvme_offload_dir", Booster().boost, model, HybridAdam(model.parameters(), nvme_offload_fraction=1.0))


class Files(Tests):
    def test_goes_on_at_another_plugin(self):
        losses, weights = reference("llama", True)
        for name, later in (("zero 1", "gemini"), ("gemini", "zero 2"), ("hybrid", "gemini, offloaded")):
            with self.subTest(f"{name}, {later}"):
                folder = shared_directory()
                run = Run(PLUGINS[name]())
                run.train(range(1))
                for steps in (range(0), range(1, 2)):  # the second save replaces the first
                    run.train(steps)
                    run.booster.save_model(run.model, f"{folder}/model", shard=True)
                    run.booster.save_optimizer(run.optimizer, f"{folder}/optimizer", shard=True)
                    run.booster.save_lr_scheduler(run.scheduler, f"{folder}/scheduler")
                self.assertEqual(sorted(os.listdir(folder)), ["model", "optimizer", "scheduler"])
                run = Run(PLUGINS[later]())
                run.booster.load_model(run.model, f"{folder}/model")
                run.booster.load_optimizer(run.optimizer, f"{folder}/optimizer")
                run.booster.load_lr_scheduler(run.scheduler, f"{folder}/scheduler")
                self.assertEqual(run.scheduler.last_epoch, 2)
                torch.testing.assert_close(run.train(range(2, STEPS)), losses[2 * PARTS:], rtol=1e-5, atol=0)
                self.assert_weights(run.weights(), weights)

    def test_models_in_files_and_folders(self):
        folder = shared_directory()
        for name, options in {"model.pt": {}, "model.safetensors": {"use_safetensors": True}, "model": {"shard": True},
                              "shards": {"shard": True, "size_per_shard": 0.02}, "prefixed": {"shard": True, "prefix": "best"}}.items():
            for saved, loaded in (("gemini", "zero 1"), ("zero 1", "gemini, offloaded")):
                with self.subTest(f"{name}, {saved}, {loaded}"):
                    run = Run(PLUGINS[saved]())
                    run.train(range(1))
                    run.booster.save_model(run.model, f"{folder}/{name}", **options)
                    expected = run.weights()
                    other = Run(PLUGINS[loaded]())
                    other.booster.load_model(other.model, f"{folder}/{name}")
                    self.assert_weights(other.weights(), expected, 0)
                    plain = model_of(LLAMA)
                    other.booster.load_model(plain, f"{folder}/{name}")
                    self.assert_weights(plain.state_dict(), expected, 0)
                    if name in ("model", "shards"):
                        self.assert_weights(AutoModelForCausalLM.from_pretrained(f"{folder}/{name}").state_dict(), expected, 0)
        self.assertGreater(len([name for name in os.listdir(f"{folder}/shards") if name.endswith(".safetensors")]), 1)

    def test_loaded_weights_are_the_masters(self):
        """A step with a rate of almost 0 keeps them, in bf16, too."""
        folder, expected = shared_directory(), {name: (value + 1).bfloat16() for name, value in model_of(LLAMA).state_dict().items()}
        if torch.distributed.get_rank() == 0:
            torch.save(expected, f"{folder}/model.pt")
        torch.distributed.barrier()
        for plugin in (LowLevelZeroPlugin(precision="bf16"), GeminiPlugin(precision="bf16")):
            run = Run(plugin)
            run.train(range(1))
            run.booster.load_model(run.model, f"{folder}/model.pt")
            self.assert_weights(run.weights(), expected, 0)
            for group in run.optimizer.param_groups:
                group["lr"] = 1e-9
            run.booster.backward(run.model(**next(iter(run.loader))).loss, run.optimizer)
            run.optimizer.step()
            self.assert_weights(run.weights(), expected, 0)

    def test_reads_what_colossal_ai_writes(self):
        """Folders of pytorch_model.bin, with and without an index."""
        folder, expected = shared_directory(), {name: value + 1 for name, value in model_of(LLAMA).state_dict().items()}
        if torch.distributed.get_rank() == 0:
            names = list(expected)
            parts = {f"pytorch_model-{index:05d}.bin": names[index - 1::2] for index in (1, 2)}
            for file, part in parts.items():
                os.makedirs(f"{folder}/two", exist_ok=True)
                torch.save({name: expected[name] for name in part}, f"{folder}/two/{file}")
            with open(f"{folder}/two/pytorch_model.bin.index.json", "w") as file:
                json.dump({"metadata": {}, "weight_map": {name: file for file, part in parts.items() for name in part}}, file)
            os.makedirs(f"{folder}/one")
            torch.save(expected, f"{folder}/one/pytorch_model.bin")
        torch.distributed.barrier()
        for name in ("one", "two"):
            run = Run(PLUGINS["gemini"]())
            run.booster.load_model(run.model, f"{folder}/{name}")
            self.assert_weights(run.weights(), expected, 0)

    def test_says_what_does_not_fit(self):
        folder = shared_directory()
        run = Run(PLUGINS["gemini"]())
        run.booster.save_model(run.model, f"{folder}/model", shard=True)
        other = Run(PLUGINS["zero 1"](), GPT2)
        self.refuses("is of another model: it lacks .*transformer.wte.weight", other.booster.load_model, other.model, f"{folder}/model")
        other.booster.load_model(other.model, f"{folder}/model", strict=False)
        self.refuses("does not exist", run.booster.load_model, run.model, f"{folder}/none")
        self.refuses("holds no weights", run.booster.load_model, run.model, folder)
        self.refuses("holds no state of an optimizer", run.booster.load_optimizer, run.optimizer, f"{folder}/model")
        with self.assertRaisesRegex(OSError, "Error"):
            run.booster.save_model(run.model, "/proc/none/model.pt")


class Arguments(Tests):
    def test_what_plugins_say_to_boost(self):
        host = {"optimizer": "host", "gradients": "host"}
        norm = {"dtype": "fp32", "max_grad_norm": NORM}
        expected = {
            "ddp": {"zero": 0},
            "zero 1": {"zero": 1, "offload": {}, **norm},
            "zero 2": {"zero": 2, "offload": host, **norm},
            "gemini": {"zero": 3, "offload": {}, **norm},
            "gemini, offloaded": {"zero": 3, "offload": {"optimizer": {"host": 1.0}, "parameters": {"host": 0.5}}, **norm},
            "gemini, weights on all": {"zero": 2, "offload": {}, **norm},
            "hybrid": {"zero": 1, "offload": {}, **norm},
            "fsdp": {"zero": 2, "dtype": None, "offload": {"parameters": "host", **host}}}
        self.assertEqual({name: make().boost_settings() for name, make in PLUGINS.items()}, expected)
        self.assertEqual(GeminiPlugin().boost_settings()["dtype"], "bf16")
        self.assertEqual(TorchFSDPPlugin().boost_settings(), {"zero": 3, "dtype": None, "offload": {}})

    def test_refuses_what_does_not_exist(self):
        self.refuses('HybridParallelPlugin: tp_size=2: .*colossal train', HybridParallelPlugin, tp_size=2, pp_size=1)
        self.refuses('HybridParallelPlugin: pp_size=2: .*parallel.pp', HybridParallelPlugin, 1, 2)
        self.refuses("GeminiPlugin: tp_size=2", GeminiPlugin, tp_size=2)
        self.refuses("GeminiPlugin has no argument placement; there is placement_policy", GeminiPlugin, placement="auto")
        self.refuses("LowLevelZeroPlugin: stage=3", LowLevelZeroPlugin, stage=3)
        self.refuses('precision="bf16", which needs no initial_scale', LowLevelZeroPlugin, precision="fp16", initial_scale=2**5)
        self.refuses("stage was given by position and by name", LowLevelZeroPlugin, 1, stage=1)
        self.refuses("norm_type=1.0", GeminiPlugin, norm_type=1.0)
        self.refuses("shard_param_frac=0.5", GeminiPlugin, shard_param_frac=0.5)
        self.refuses("use_fp8=True", LowLevelZeroPlugin, use_fp8=True)
        self.refuses("broadcast_buffers=False", TorchDDPPlugin, broadcast_buffers=False)
        self.refuses("HYBRID_SHARD", TorchFSDPPlugin, sharding_strategy=ShardingStrategy.HYBRID_SHARD)
        self.refuses("torch.float16", TorchFSDPPlugin, mixed_precision=MixedPrecision(param_dtype=torch.float16))
        self.refuses("parallel.ep", MoeHybridParallelPlugin, ep_size=2, tp_size=1, pp_size=1)
        self.refuses("mixed_precision='fp16'", Booster, mixed_precision="fp16")
        self.refuses("give precision= to GeminiPlugin", Booster, mixed_precision="bf16", plugin=GeminiPlugin())
        parameters = [torch.nn.Parameter(torch.ones(2))]
        self.refuses("amsgrad=True", FusedAdam, parameters, amsgrad=True)
        self.refuses("betas of a parameter group", HybridAdam, [{"params": parameters, "betas": (0.5, 0.5)}])
        self.refuses('bias_correction=False', Lamb, parameters, bias_correction=False)
        self.refuses("cycle_momentum=False", schedulers.OneCycleLR, HybridAdam(parameters), 10)
        self.refuses('use colossal.boost\\(model, "came"\\)', getattr, colossalai.nn.optimizer, "CAME")
        self.refuses("launch\\(\\) was called before", colossalai.launch_from_torch)
        self.refuses("SLURM_PROCID is not set", colossalai.launch_from_slurm, "localhost", 29500)
        self.refuses("execute_pipeline", Booster().execute_pipeline, None)
        self.refuses("colossal tune", Booster().enable_lora, None)
        self.refuses("was not boosted by this booster", Booster().no_sync, optimizer=HybridAdam(parameters))

    def test_says_once_what_has_no_effect(self):
        with self.assertLogs("colossalai", "INFO") as logs:
            get_dist_logger().info("one line, so that ranks other than 0 have some")
            GeminiPlugin(precision="bf16", search_range_m=64)
            GeminiPlugin(precision="bf16", search_range_m=64)
        found = [line for line in logs.output if "GeminiPlugin: search_range_m has no effect here" in line]
        self.assertEqual(len(found), 1 if torch.distributed.get_rank() == 0 else 0)

    def test_schedules(self):
        """The rates of the formulas of torch's schedulers, after the warm-up."""
        def rates(kind, *arguments, **named):
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=2.0)
            scheduler = kind(optimizer, *arguments, **named)
            found = []
            for _ in range(10):
                found.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
                scheduler.step()
            return found

        torch_schedulers = torch.optim.lr_scheduler
        cosine = rates(torch_schedulers.CosineAnnealingLR, 6, 0.5)
        warmup = [0.5, 1.0, 1.5, 2.0]
        for found, expected in (
                (rates(CosineAnnealingWarmupLR, 10, warmup_steps=4, eta_min=0.5), warmup + cosine[:6]),
                (rates(schedulers.CosineAnnealingLR, 6, 0.5), cosine),
                (rates(schedulers.LinearWarmupLR, 10, warmup_steps=3), [0.5, 1.0, 1.5] + [2 * (10 - step) / 7 for step in range(3, 10)]),
                (rates(schedulers.MultiStepWarmupLR, 10, 2, [5, 8]), [1.0, 2.0, 2.0, 2.0, 2.0, 0.2, 0.2, 0.2, 0.02, 0.02]),
                (rates(schedulers.MultiStepLR, 10, [5, 8]), rates(torch_schedulers.MultiStepLR, [5, 8])),
                (rates(schedulers.PolynomialWarmupLR, 10, 4, 0.5, 2.0), warmup + [0.5 + 1.5 * (1 - step / 6) ** 2 for step in range(6)]),
                (rates(schedulers.PolynomialLR, 10, 0.0), rates(torch_schedulers.PolynomialLR, 10)),
                (rates(schedulers.FlatAnnealingLR, 10, 0.4), [2.0] * 4 + rates(torch_schedulers.CosineAnnealingLR, 6)[:6]),
                (rates(schedulers.FlatAnnealingWarmupLR, 10, 2, 0.25, 0.5), [1.0, 2.0, 2.0, 2.0] + cosine[:6]),
                (rates(schedulers.OneCycleLR, 10, cycle_momentum=False),
                 rates(torch_schedulers.OneCycleLR, 2.0, 10, cycle_momentum=False)),
                (rates(schedulers.StepLR, 10, 3, 0.5), rates(torch_schedulers.StepLR, 3, 0.5)),
                (rates(schedulers.ExponentialLR, 10, 0.5), rates(torch_schedulers.ExponentialLR, 0.5))):
            torch.testing.assert_close(found, expected)


class Launch(Tests):
    def test_ranks_have_samples_of_their_own(self):
        for shuffle in (False, True):
            loader = TorchDDPPlugin().prepare_dataloader(Tokens(), batch_size=3, shuffle=shuffle, num_workers=1)
            mine = [row.tolist() for batch in loader for row in batch["input_ids"]]
            all_of_them = [None, None]
            torch.distributed.all_gather_object(all_of_them, mine)
            self.assertEqual(sorted(all_of_them[0] + all_of_them[1]), sorted(Tokens().rows.tolist()))

    def test_coordinator(self):
        coordinator, rank = DistCoordinator(), torch.distributed.get_rank()
        self.assertEqual((coordinator.rank, coordinator.world_size, coordinator.local_rank), (rank, 2, rank))
        self.assertEqual((coordinator.is_master(), coordinator.is_last_process()), (rank == 0, rank == 1))
        self.assertEqual(coordinator.on_master_only()(lambda: "done")(), "done" if rank == 0 else None)
        path = f"{shared_directory()}/file"
        with coordinator.priority_execution():
            if rank == 0:
                open(path, "w").close()
            self.assertTrue(os.path.exists(path))
        self.assertEqual(colossalai.utils.get_current_device(), get_accelerator().get_current_device())

    def test_other_launchers(self):
        """Without torchrun: two processes that are given numbers, as srun and a program of one's own give them."""
        if torch.distributed.get_rank() == 0:
            program = ("import sys, os, torch, colossal.colossalai as c; from colossal.colossalai.booster import Booster\n"
                       "launch = c.launch_from_slurm if sys.argv[1] == 'slurm' else c.launch\n"
                       "launch(host='127.0.0.1', port=int(sys.argv[3]), **({} if sys.argv[1] == 'slurm' else {'rank': int(sys.argv[2]),"
                       " 'world_size': 2}))\n"
                       "model = torch.nn.Linear(2, 1); optimizer = c.nn.optimizer.HybridAdam(model.parameters())\n"
                       "Booster().boost(model, optimizer); model(torch.ones(1, 2)).sum().backward(); optimizer.step()\n"
                       "total = torch.ones(1); torch.distributed.all_reduce(total); print(total.item(), optimizer.grad_norm)")
            for kind in ("slurm", "launch"):
                processes = []
                port = free_port()
                for rank in range(2):
                    environment = {name: value for name, value in os.environ.items() if not name.startswith(
                        ("TORCHELASTIC", "MASTER", "RANK", "WORLD", "LOCAL", "GROUP", "ROLE"))}
                    if kind == "slurm":
                        environment |= {"SLURM_PROCID": str(rank), "SLURM_NPROCS": "2", "SLURM_LOCALID": str(rank)}
                    processes.append(subprocess.Popen([sys.executable, "-c", program, kind, str(rank), str(port)], env=environment,
                                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
                for process in processes:
                    out, error = process.communicate(timeout=120)
                    self.assertEqual(out.split()[:1], ["2.0"], error)
        torch.distributed.barrier()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    colossalai.launch_from_torch(seed=42)
    unittest.main(verbosity=2)
