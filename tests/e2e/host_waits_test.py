"""How often the host waits for a GPU in a step: once, for the control message; and once for the counts of each layer
of experts.

The emulated GPU lists the waits by function. Two runs that differ only in their number of steps tell those of a step
from those of the start.
"""
import collections
import json
import subprocess
import unittest

from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from gpu_cases import EXACT, FAMILIES, HAS_GPU, NCCL_ENVIRONMENT
from harness import COLOSSAL, EndToEndTest

CONTROL = {"copy to the host colossal::reduce_control": 1}
STEPS = 3  # by which the two runs differ


@unittest.skipIf(HAS_GPU, "needs an emulated GPU")
class HostWaits(EndToEndTest):
    def waits(self, command):
        """The waits of a run: what waits, for whom -> how often."""
        reports = self.directory / "waits"
        environment = dict(NCCL_ENVIRONMENT, EMULATED_GPU_REPORT=str(reports))
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = collections.Counter()
        for report in self.directory.glob("waits.*"):
            for line in report.read_text().splitlines():
                count, site = line.split(" ", 1)
                found[site.split(" < ")[0]] += int(count)
            report.unlink()
        return found

    def check(self, command, expected=CONTROL, ranks=1):
        """command: makes one from the number of steps."""
        few, many = self.waits(command(2)), self.waits(command(2 + STEPS))
        of_step = {site: count / STEPS / ranks for site, count in (many - few).items()}
        self.assertEqual(of_step, expected)

    def training(self, *flags, ranks=1):
        return lambda steps: self.command(*self.flags(f"run-{steps}", checkpoints=False), *flags, f"--train.steps={steps}",
                                          "--parallel.device=gpu", "--log.report=false", ranks=ranks)

    def test_layouts(self):
        """Over NCCL; "auto" finds a GPU for each rank."""
        for ranks, flags in ((2, ["--parallel.zero=3"]),
                             (4, ["--parallel.tp=2", "--parallel.zero=1"]),
                             (4, ["--parallel.pp=2", "--parallel.sp=2", "--train.micro_batch=3"])):
            with self.subTest(flags=flags):
                self.use("llama-tiny")
                self.check(self.training(*flags, ranks=ranks), ranks=ranks)

    def test_text(self):
        for preset, flags in (("llama-tiny", ["--precision.compute=bf16", "--data.separate_documents=true"]),
                              ("llama-tiny", ["--train.micro_batch=5", "--memory.recompute=full"]),
                              ("gpt2-tiny", ["--precision.compute=bf16", "--train.dropout=0.1"]),
                              ("gpt2-tiny", ["--train.dropout=0.1"]),
                              ("bert-tiny", ["--precision.compute=bf16"]),
                              ("t5-tiny", []), ("bart-tiny", [])):
            with self.subTest(preset=preset, flags=flags):
                self.use(preset)
                self.check(self.training(*flags))

    def save(self, family):
        folder = self.directory / family
        fields = dict(FAMILIES[family], vocab_size=257, max_position_embeddings=64)
        AutoModelForCausalLM.from_config(CONFIG_MAPPING[family](**fields)).save_pretrained(folder)
        return folder

    def test_families(self):
        for family in ("gemma2", "falcon", "gpt_neox"):
            with self.subTest(family):
                self.use_folder(self.save(family))
                self.check(self.training())

    def test_tiers(self):
        """The host waits for gradients that its CPU uses, here of one chunk, and for no other copy."""
        self.use("llama-tiny")
        for ranks, flags, others in (
                (1, ["--memory.offload_parameters=host"], {}),
                (1, ["--memory.offload_activations=host"], {}),
                (1, ["--memory.offload_gradients=host"], {}),
                (2, ["--memory.offload_parameters=host", "--parallel.zero=1"], {}),
                (2, ["--memory.offload_parameters=host", "--parallel.zero=3"], {}),
                (1, ["--memory.offload_optimizer=host"], {"event colossal::memory::TierTransfer::tensor": 1})):
            with self.subTest(flags=flags):
                self.check(self.training(*flags, ranks=ranks), CONTROL | others, ranks=ranks)

    def test_generation(self):
        """The host waits for each token, and for nothing else."""
        self.use("llama-tiny")
        self.train(*self.flags("run"), *EXACT, "--parallel.device=cpu")
        for flags in (["--temperature=0"], ["--temperature=0.8", "--top-k=20", "--top-p=0.9"]):
            with self.subTest(flags=flags):
                self.check(lambda tokens: [
                    str(COLOSSAL), "generate", str(self.newest("run")), "--prompt=import ", f"--max-new-tokens={8 + tokens}",
                    "--parallel.device=gpu", *flags], {"copy to the host colossal::serve::ForwardPass::collect": 1})

    def test_experts(self):
        layers = FAMILIES["mixtral"]["num_hidden_layers"]
        self.use_folder(self.save("mixtral"))
        self.check(self.training(), CONTROL | {"event colossal::ops::Download::wait": layers})

    def test_tuning(self):
        model = self.save("llama")
        pairs = self.directory / "pairs.jsonl"
        pairs.write_text("".join(json.dumps({"prompt": "1 + 1 = ", "chosen": "2" * n, "rejected": "3"}) + "\n"
                                 for n in range(1, 7)))
        texts = self.directory / "texts.jsonl"
        texts.write_text("".join(json.dumps({"prompt": "x = ", "completion": "y" * n}) + "\n" for n in range(1, 7)))
        for method, data in (("sft", texts), ("dpo", pairs), ("orpo", pairs)):
            self.toml.write_text(f'[model]\npath = "{model}"\n[data]\ntrain = ["{data}"]\ntokenizer = "bytes"\n')
            for flags in ([], ["--adapter.kind=lora", "--adapter.rank=2"]):
                with self.subTest(method=method, flags=flags):
                    self.check(lambda steps: [
                        str(COLOSSAL), "tune", method, str(self.toml), f"--train.steps={steps}", "--train.global_batch=6",
                        "--parallel.device=gpu", "--train.threads=1", "--log.report=false",
                        f"--log.directory={self.directory}/{method}-{len(flags)}-{steps}", *flags])


if __name__ == "__main__":
    unittest.main()
