"""On a GPU every model, layout and way to save memory computes what it computes on the CPU. Ranks share the GPU.

Where there is none, the GPU is emulated (tests/support/emulated_gpu): a mistake in its use ends the run. gpu_test.py
and slow_gpu_test.py run these cases.
"""
import json
import os
import shutil
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import BUILD, COLOSSAL, CORPUS, ROOT, EndToEndTest
from serve_test import Server

FAMILIES = json.loads((ROOT / "tests" / "support" / "families.json").read_text())
EXACT = ["--precision.compute=fp64", "--optimizer.learning_rate=1e-2", "--optimizer.eps=1e-6", "--train.steps=3"]


def has_gpu():
    return shutil.which("nvidia-smi") is not None and "GPU 0" in subprocess.run(
        [COLOSSAL, "check"], capture_output=True, text=True).stdout


HAS_GPU = has_gpu()
# Of programs that use the GPU.
GPU_ENVIRONMENT = dict(os.environ) if HAS_GPU else dict(os.environ, LD_PRELOAD=str(BUILD / "libemulated_gpu.so"))
# Of those in which each rank has an emulated GPU of its own, and an emulated NCCL connects them.
NCCL_ENVIRONMENT = dict(os.environ, LD_PRELOAD=f"{BUILD / 'libemulated_gpu.so'}:{BUILD / 'libnccl.so.2'}",
                        EMULATED_GPU_DEVICES="8")

KINDS = ("parameters", "gradients", "optimizer", "activations")
ON_HOST, ON_NVME = ({f"memory.offload_{kind}": tier for kind in KINDS} for tier in ("host", "nvme"))
LAYOUTS = {
    "one_rank": ({}, 1),
    "dropout": ({"train.dropout": 0.1}, 1),
    "accumulation": ({"train.micro_batch": 5}, 1),
    "recompute": ({"memory.recompute": "full"}, 1),
    "selective": ({"memory.recompute": "selective"}, 1),
    "activations_on_host": ({"memory.offload_activations": "host"}, 1),
    "all_on_host": (ON_HOST, 1),
    "all_on_nvme": (ON_NVME, 1),
    "all_on_host_accumulation": (ON_HOST | {"train.micro_batch": 5}, 1),
    "all_on_nvme_accumulation": (ON_NVME | {"train.micro_batch": 5}, 1),
    "optimizer_on_host": ({"memory.offload_optimizer": "host"}, 1),
    "dp": ({}, 3),
    "zero2": ({"parallel.zero": 2, "train.micro_batch": 2}, 2),
    "zero3": ({"parallel.zero": 3}, 3),
    "zero3_host": ({"parallel.zero": 3, "memory.offload_parameters": "host", "memory.offload_optimizer": "host"}, 2),
    "zero1_host": (ON_HOST | {"parallel.zero": 1, "train.micro_batch": 3}, 2),
    "zero2_host": (ON_HOST | {"parallel.zero": 2, "train.micro_batch": 2}, 3),
    "zero3_nvme": (ON_NVME | {"parallel.zero": 3, "train.micro_batch": 3}, 2),
    "gloo": ({"parallel.backend": "gloo"}, 2),
    "tp_1d": ({"parallel.tp": 2}, 2),
    "tp_2d": ({"parallel.tp": 4, "parallel.tp_mode": "2d"}, 4),
    "tp_25d": ({"parallel.tp": 8, "parallel.tp_mode": "2.5d", "parallel.tp_depth": 2}, 8),
    "tp_3d": ({"parallel.tp": 8, "parallel.tp_mode": "3d"}, 8),
    "ring": ({"parallel.sp": 2}, 2),
    "ulysses": ({"parallel.sp": 2, "parallel.sp_mode": "ulysses"}, 2),
    "pp": ({"parallel.pp": 2, "train.micro_batch": 3}, 2),
    "pp_zero_bubble": ({"parallel.pp": 2, "parallel.pp_schedule": "zb-h1", "train.micro_batch": 3}, 2),
    "pp_tp": ({"parallel.pp": 2, "parallel.tp": 2, "train.micro_batch": 3}, 4),
}


def environment(device):
    return {"cpu": dict(os.environ), "gpu": GPU_ENVIRONMENT, "nccl": NCCL_ENVIRONMENT}[device]


def as_flags(keys):
    return [f"--{key}={value}" for key, value in keys.items()]


class Gpu(EndToEndTest):
    def curve(self, name, keys, ranks, device):
        flags = as_flags(keys)
        if any("nvme" in str(value) for value in keys.values()):
            flags.append(f"--memory.nvme_path={self.directory}")
        if device == "nccl":
            flags += ["--parallel.backend=nccl", "--parallel.timeout=30s"]
        self.train(*self.flags(name), *EXACT, *flags, f"--parallel.device={'cpu' if device == 'cpu' else 'gpu'}",
                   ranks=ranks, env=environment(device))
        return self.losses(name)

    def check(self, keys, ranks=1, serial=None, device="gpu"):
        """The losses and weights on GPUs are those of one rank on the CPU with the keys `serial`."""
        expected = self.curve("cpu", keys if serial is None else serial, 1, "cpu")
        found = self.curve("gpu", keys, ranks, device)
        self.assertEqual(expected.keys(), found.keys())
        for step, loss in expected.items():
            self.assertAlmostEqual(found[step], loss, delta=1e-9 * loss)
        ours, theirs = self.weights(self.newest("gpu")), self.weights(self.newest("cpu"))
        self.assertEqual(ours.keys(), theirs.keys())
        for name in ours:
            self.assertLessEqual((ours[name] - theirs[name]).abs().max(), 1e-6, name)


    def model(self):
        """A checkpoint from a run on the CPU."""
        if not (self.directory / "cpu").exists():
            self.use("llama-tiny")
            self.curve("cpu", {}, 1, "cpu")
        return self.newest("cpu")

    def output_of(self, command, *flags, device):
        flags = [*flags, f"--parallel.device={'cpu' if device == 'cpu' else 'gpu'}"]
        done = subprocess.run([COLOSSAL, command, self.model(), *flags], capture_output=True, text=True, timeout=120,
                              env=environment(device))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check_output(self, command, *flags, on_gpus=(), device="gpu"):
        of_cpu = self.output_of(command, *flags, device="cpu")
        self.assertEqual(self.output_of(command, *flags, *on_gpus, device=device), of_cpu)

    def test_generates(self):
        for flags in ([], ["--memory.offload_parameters=host"], ["--ranks=2", "--parallel.tp=2"],
                      ["--ranks=2", "--parallel.pp=2"]):
            with self.subTest(flags):
                self.check_output("generate", "--prompt=import ", "--temperature=0", "--max-new-tokens=24",
                                  "--precision.compute=fp64", on_gpus=flags)

    @unittest.skipIf(HAS_GPU, "for emulated GPUs")
    def test_nccl_generates(self):
        for flags in (["--ranks=2", "--parallel.tp=2"], ["--ranks=4", "--parallel.tp=2", "--parallel.pp=2"]):
            with self.subTest(flags):
                self.check_output("generate", "--prompt=import ", "--temperature=0", "--max-new-tokens=24",
                                  "--precision.compute=fp64", on_gpus=flags, device="nccl")

    def test_samples_and_searches(self):
        for flags in (["--temperature=1", "--seed=3"], ["--num-beams=3"], ["--temperature=0", "--speculate=lookup"]):
            with self.subTest(flags):
                self.check_output("generate", "--prompt=import ", "--max-new-tokens=24", "--precision.compute=fp64", *flags)

    def test_generates_with_quantized_weights(self):
        for bits in ("int8", "int4"):
            with self.subTest(bits):
                self.output_of("generate", "--prompt=import ", "--temperature=0", "--max-new-tokens=24", f"--quantize={bits}",
                               device="gpu")

    # How requests are sampled: on the GPU where it can, else on the host.
    REQUESTS = [
        {"temperature": 0}, {"temperature": 1, "seed": 3}, {"temperature": 0.7, "top_p": 0.8, "seed": 4},
        {"temperature": 1, "seed": 5, "extra_body": {"top_k": 20, "min_p": 0.01}}, {"temperature": 0, "logprobs": 2},
        {"temperature": 1, "seed": 6, "presence_penalty": 0.5},
        {"temperature": 1, "seed": 7, "extra_body": {"structured_outputs": {"regex": "[0-9a-f]{8}"}}},
        {"temperature": 1, "seed": 8, "n": 3}]

    def answers(self, device, *flags):
        server = Server(self.model(), "--precision.compute=fp64", f"--parallel.device={'cpu' if device == 'cpu' else 'gpu'}",
                        *flags, environment=environment(device))
        try:
            def ask(options):
                answer = server.client().completions.create(model="tiny", prompt="import ", max_tokens=12, **options)
                return [choice.text for choice in answer.choices]
            with ThreadPoolExecutor(len(self.REQUESTS)) as pool:
                return list(pool.map(ask, self.REQUESTS))
        finally:
            server.stop()

    def test_serves(self):
        of_cpu = self.answers("cpu")
        self.assertEqual(len(of_cpu[-1]), 3)
        for flags in ([], ["--memory.offload_parameters=host"], ["--ranks=2", "--parallel.tp=2"], ["--ranks=2", "--parallel.pp=2"]):
            with self.subTest(flags):
                self.assertEqual(self.answers("gpu", *flags), of_cpu)

    @unittest.skipIf(HAS_GPU, "for emulated GPUs")
    def test_nccl_serves(self):
        self.assertEqual(self.answers("nccl", "--ranks=4", "--parallel.tp=2", "--parallel.pp=2"), self.answers("cpu"))

    def test_evaluates(self):
        flags = ["--data", CORPUS, "--json", "--precision.compute=fp64", "--sequence-length=32"]
        of_cpu = json.loads(self.output_of("evaluate", *flags, device="cpu"))
        of_gpu = json.loads(self.output_of("evaluate", *flags, device="gpu"))
        self.assertAlmostEqual(of_gpu["loss"], of_cpu["loss"], delta=1e-9)

    def test_bf16(self):
        """With bf16 the two round differently."""
        for preset, flags in (("gpt2-tiny", []), ("llama-tiny", []), ("llama-tiny", ["--data.separate_documents=true"])):
            self.use(preset)
            curves = {}
            for device in ("cpu", "gpu"):
                name = f"{preset}-{device}-{len(flags)}"
                self.train(*self.flags(name), *flags, "--precision.compute=bf16", "--train.steps=20",
                           "--optimizer.learning_rate=3e-3", f"--parallel.device={device}", env=environment(device))
                curves[device] = self.losses(name)
            for step, loss in curves["cpu"].items():
                self.assertAlmostEqual(curves["gpu"][step], loss, delta=0.02 * loss)
            self.assertEqual({line["fallbacks"] for line in self.metrics(name).values()}, {0})

    def test_says_once_what_has_no_kernel(self):
        self.use("gpt2-tiny")
        log = self.train(*self.flags(), "--precision.compute=bf16", "--train.dropout=0.1", "--train.steps=3",
                         "--parallel.device=gpu", env=environment("gpu"))
        self.assertEqual(log.count("no kernel of the GPU computes attention with dropout"), 1)
        layers = 2
        self.assertEqual({line["fallbacks"] for line in self.metrics().values()}, {2 * layers})

    def test_goes_on_with_a_run_of_the_cpu(self):
        self.train(*self.flags("whole"), *EXACT, "--train.steps=6", "--parallel.device=cpu")
        self.train(*self.flags("parts"), *EXACT, "--train.steps=3", "--parallel.device=cpu")
        log = self.train(*self.flags("parts"), *EXACT, "--train.steps=6", "--parallel.device=gpu", "--parallel.zero=3", ranks=2,
                         env=environment("gpu"))
        self.assertIn("resumed from", log)
        for step, loss in self.losses("whole").items():
            self.assertAlmostEqual(self.losses("parts")[step], loss, delta=1e-9 * loss)

    @unittest.skipIf(HAS_GPU, "for emulated GPUs")
    def test_nccl_hang_is_told(self):
        """A kernel of rank 1 never ends: rank 0 says whom it waits for, and rank 1 what it does."""
        hang = {"EMULATED_GPU_FAIL_AT": "20000", "EMULATED_GPU_HANGS": "1", "EMULATED_GPU_FAIL_RANK": "1"}
        log = self.train(*self.flags(checkpoints=False), "--train.steps=100000", "--parallel.device=gpu",
                         "--parallel.timeout=3s", ranks=2, expect=3, env=NCCL_ENVIRONMENT | hang)
        self.assertRegex(log, "timed out after 3s: rank 1 did not arrive: earlier work on its GPU does not end")
        self.assertRegex(log, r"(?s)rank 1 \(pid \d+\) does:.*colossal::reduce_control")

    def use_experts(self):
        folder = self.directory / "model"
        fields = dict(FAMILIES["mixtral"], vocab_size=257, max_position_embeddings=32, initializer_range=0.1)
        AutoModelForCausalLM.from_config(CONFIG_MAPPING["mixtral"](**fields)).save_pretrained(folder)
        self.use_folder(folder)

    def test_experts(self):
        self.use_experts()
        self.check({"parallel.ep": 2}, 2, {})

    def test_generates_with_experts_on_host(self):
        """Only experts with rows are fetched, when they are used."""
        self.use_experts()
        self.curve("cpu", {}, 1, "cpu")
        for tier in ("host", "nvme"):
            with self.subTest(tier):
                self.check_output("generate", "--prompt=import ", "--temperature=0", "--max-new-tokens=12", "--precision.compute=fp64",
                                  on_gpus=[f"--memory.offload_parameters={tier}", f"--memory.nvme_path={self.directory}"])

    @unittest.skipIf(HAS_GPU, "for emulated GPUs")
    def test_nccl_experts(self):
        self.use_experts()
        self.check({"parallel.ep": 2, "parallel.tp": 2, "parallel.zero": 2}, 4, {}, "nccl")


def add(name, function):
    function.__name__ = f"test_{name}"
    setattr(Gpu, function.__name__, function)


def serial_keys(keys):
    return {key: value for key, value in keys.items() if not key.startswith(("parallel.", "memory."))}


for layout, (keys, ranks) in LAYOUTS.items():
    def gpt2(self, keys=keys, ranks=ranks):
        self.check(keys, ranks, serial_keys(keys))

    def llama(self, keys=keys, ranks=ranks):
        self.use("llama-tiny")
        self.check(keys, ranks, serial_keys(keys))

    @unittest.skipIf(HAS_GPU, "for emulated GPUs")
    def nccl(self, keys=keys, ranks=ranks):
        self.use("llama-tiny")
        self.check(keys, ranks, serial_keys(keys), "nccl")

    add(f"gpt2_{layout}", gpt2)
    if ranks > 1 and layout != "gloo":
        add(f"nccl_{layout}", nccl)
    if layout != "dropout":  # of GPT-2 alone
        add(f"llama_{layout}", llama)

for family in FAMILIES:
    def of_family(self, family=family):
        folder = self.directory / "model"
        fields = dict(FAMILIES[family], vocab_size=257)
        positions = {"gpt2": "n_positions", "gptj": "n_positions", "bloom": "seq_length"}
        fields[positions.get(family, "max_position_embeddings")] = 32
        AutoModelForCausalLM.from_config(CONFIG_MAPPING[family](**fields)).save_pretrained(folder)
        self.use_folder(folder)
        self.check({"optimizer.learning_rate": 1e-3})

    add(f"family_{family}", of_family)


def suite(names):
    return unittest.TestSuite(Gpu(name) for name in names)


def all_names():
    return unittest.TestLoader().getTestCaseNames(Gpu)
