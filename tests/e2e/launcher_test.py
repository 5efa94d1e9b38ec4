"""The same binary under every launcher, and what becomes of a job when a rank dies."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import COLOSSAL, ROOT, EndToEndTest

STEPS = "--train.steps=4"


def slurm_task(rank, tasks):
    """The environment that srun gives to a task, all of them on one host."""
    return {**os.environ, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(tasks),
            "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_LOCALID": str(rank),
            "SLURM_JOB_ID": str(20000 + os.getpid() % 10000), "SLURM_STEP_ID": "0",
            "SLURM_JOB_NUM_NODES": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_NNODES": "1",
            "SLURM_STEP_TASKS_PER_NODE": str(tasks), "SLURM_TASKS_PER_NODE": str(tasks),
            "SLURM_JOB_NODELIST": "localhost", "SLURM_STEP_NODELIST": "localhost",
            "SLURM_NODEID": "0"}


class Launchers(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.train(*self.flags("expected"), STEPS, ranks=2)

    def check(self, name, *launcher):
        command = [*map(str, launcher), str(COLOSSAL), "train", str(self.toml), *self.flags(name), STEPS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.losses(name), self.losses("expected"))

    def test_colossal_run(self):
        self.check("run", COLOSSAL, "run", "-n", "2", "--")

    def test_torchrun(self):
        self.check("torchrun", ROOT / ".venv/bin/python", "-m", "torch.distributed.run", "--no-python",
                   "--nproc-per-node=2", "--master-addr=127.0.0.1", "--master-port=0",
                   "--rdzv-endpoint=127.0.0.1:0", "--rdzv-backend=c10d")

    def test_mpirun(self):
        self.assertTrue(shutil.which("mpirun"), "tools/setup tests installs openmpi-bin")
        self.check("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")

    def test_slurms_variables(self):
        """As srun starts two tasks on one host."""
        ranks = []
        for rank in range(2):
            ranks.append(subprocess.Popen([COLOSSAL, "train", self.toml, *self.flags("srun"), STEPS],
                                          env=slurm_task(rank, 2), stderr=subprocess.PIPE, text=True))
        for rank in ranks:
            error = rank.communicate(timeout=60)[1]
            self.assertEqual(rank.returncode, 0, error)
        self.assertEqual(self.losses("srun"), self.losses("expected"))

    def test_ranks_within_one_task(self):
        """As in a shell from `srun --ntasks=1 --pty bash`, or beside variables that another tool has left."""
        for name, environment in (("shell", slurm_task(0, 1)), ("left", {**os.environ, "RANK": "0", "WORLD_SIZE": "1"})):
            self.train(*self.flags(name), STEPS, ranks=2, env=environment)
            self.assertEqual(self.losses(name), self.losses("expected"))
        self.assertIn("--ranks=3, but Slurm has started this process as one of 2 ranks",
                      self.train(*self.flags("x"), STEPS, ranks=3, expect=2, env=slurm_task(0, 2)))

    def test_one_rank_needs_no_place_to_meet(self):
        command = [COLOSSAL, "train", self.toml, *self.flags("alone"), STEPS]
        done = subprocess.run(command, env={**os.environ, "RANK": "0", "WORLD_SIZE": "1"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run(command, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("MASTER_ADDR", done.stderr)


class TwoHosts(EndToEndTest):
    """Two network namespaces joined by a virtual cable; the launchers meet over it."""

    def setUp(self):
        super().setUp()
        self.need_root("makes network namespaces")
        tag = os.getpid() % 100000
        self.hosts = [f"colossal-{tag}-{i}" for i in range(2)]
        self.addresses = ["10.99.7.1", "10.99.7.2"]
        cable = self.cable = [f"col{tag}a", f"col{tag}b"]
        for host in self.hosts:
            self.ip("netns", "add", host)
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", host])
        self.ip("link", "add", cable[0], "netns", self.hosts[0], "type", "veth", "peer", "name", cable[1],
                "netns", self.hosts[1])
        for host, address, device in zip(self.hosts, self.addresses, cable):
            self.ip("-n", host, "addr", "add", f"{address}/24", "dev", device)
            self.ip("-n", host, "link", "set", device, "up")
            self.ip("-n", host, "link", "set", "lo", "up")

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True)

    def start(self, host, *flags):
        command = ["ip", "netns", "exec", host, str(COLOSSAL), "run", "-n", "2",
                   "--hosts=" + ",".join(self.addresses), "--", str(COLOSSAL), "train", str(self.toml),
                   *flags]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def test_four_ranks_on_two_hosts(self):
        self.train(*self.flags("expected"), STEPS, ranks=4)
        launchers = [self.start(host, *self.flags("hosts"), STEPS) for host in self.hosts]
        for launcher in launchers:
            error = launcher.communicate(timeout=60)[1]
            self.assertEqual(launcher.returncode, 0, error)
        losses, expected = self.losses("hosts"), self.losses("expected")
        self.assertEqual(losses.keys(), expected.keys())
        for step, loss in expected.items():  # sums are made host by host: not the same bits
            self.assertAlmostEqual(losses[step], loss, delta=1e-4 * loss)

    def bytes_between_hosts(self, *flags):
        """On the cable, both ways, without headers: Ethernet 14, IP 20, TCP with time stamps 32."""
        def counted():
            path = f"/sys/class/net/{self.cable[0]}/statistics/"
            names = [path + name for name in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")]
            sent, received, *packets = map(int, subprocess.run(
                ["ip", "netns", "exec", self.hosts[0], "cat", *names], check=True, capture_output=True,
                text=True).stdout.split())
            return sent + received - 66 * sum(packets)
        before = counted()
        launchers = [self.start(host, *flags) for host in self.hosts]
        for launcher in launchers:
            error = launcher.communicate(timeout=100)[1]
            self.assertEqual(launcher.returncode, 0, error)
        return counted() - before

    def test_rows_of_experts_between_hosts_are_those_of_the_law(self):
        """All tokens choose the experts of the first host's two ranks. So the rows of the other host's tokens cross
        four times: there and back, forward and backward. Gradients of what all ranks hold cross twice."""
        fields = dict(json.loads((ROOT / "tests/support/families.json").read_text())["gpt_oss"], vocab_size=257,
                      hidden_size=64, head_dim=8, num_hidden_layers=2, num_local_experts=4)
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING["gpt_oss"](**fields))
        with torch.no_grad():
            for layer in model.model.layers:
                layer.mlp.router.bias.copy_(torch.tensor([60.0, 50.0, 0.0, 0.0]))
        model.save_pretrained(self.directory / "model")
        self.use_folder(self.directory / "model")
        flags = [*self.flags("hosts", checkpoints=False), "--data.sequence_length=64", "--train.global_batch=32",
                 "--precision.compute=fp32", "--parallel.ep=4", "--parallel.zero=0"]
        short, long = (self.bytes_between_hosts(*flags, f"--train.steps={steps}") for steps in (2, 7))
        held_by_all = sum(weight.numel() for name, weight in model.state_dict().items() if "experts." not in name)
        tokens = 32 * 64 // 2  # of the other host
        rows = 4 * tokens * fields["num_experts_per_tok"] * fields["num_hidden_layers"]
        law = 4 * (rows * fields["hidden_size"] + 2 * held_by_all)
        self.assertAlmostEqual((long - short) / 5 / law, 1, delta=0.01)

    def test_a_host_that_differs_is_named_on_both(self):
        """Another setting, and a copy of the corpus that was not renewed."""
        text = [self.directory / f"{host}.txt" for host in self.hosts]
        for file, word in zip(text, ("other", "otter")):
            file.write_text(f"the one and the {word} " * 50)
        for of_host, said in ((["--data.seed=0", "--data.seed=1"], "rank 2 has data.seed = 1, rank 0 has 0"),
                              ([f"--data.train={file}" for file in text], "rank 2 has data.train = 1,100 tokens")):
            launchers = [self.start(host, *self.flags("hosts", checkpoints=False), STEPS, flag)
                         for host, flag in zip(self.hosts, of_host)]
            for launcher in launchers:
                error = launcher.communicate(timeout=60)[1]
                self.assertEqual(launcher.returncode, 2, error)
                self.assertIn(said, error)

    def test_a_rank_that_dies_is_named_on_both(self):
        launchers = [self.start(host, *self.flags("hosts", checkpoints=False), "--train.steps=100000")
                     for host in self.hosts]
        wait_for_a_step(launchers[0], self.directory / "hosts")
        victim = next(pid for pid in ranks_of(launchers[1].pid) if variable(pid, "RANK") == "3")
        start = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        for launcher in launchers:
            error = launcher.communicate(timeout=20)[1]
            self.assertEqual(launcher.returncode, 3, error)
            self.assertRegex(error, r"rank 3\b.*SIGKILL")
        self.assertLess(time.monotonic() - start, 5)


class Deaths(EndToEndTest):
    def start(self):
        process = subprocess.Popen(self.command(*self.flags(), "--train.steps=100000", ranks=3),
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        wait_for_a_step(process, self.directory / "run")
        return process

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        for rank in ("0", "2"):
            process = self.start()
            ranks = ranks_of(process.pid)
            self.assertEqual(len(ranks), 3)
            start = time.monotonic()
            os.kill(next(pid for pid in ranks if variable(pid, "RANK") == rank), signal.SIGKILL)
            error = process.communicate(timeout=20)[1]
            self.assertLess(time.monotonic() - start, 5)
            self.assertEqual(process.returncode, 3, error)
            self.assertRegex(error, rf"rank {rank}\b.*SIGKILL")
            self.assertFalse(any(map(alive, ranks)))
            shutil.rmtree(self.directory / "run")

    def test_ctrl_c_saves_and_leaves_no_process(self):
        # Tests in the background of a shell's script ignore SIGINT, and so would what they start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        process = self.start()
        ranks = ranks_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        error = process.communicate(timeout=30)[1]
        self.assertFalse(any(map(alive, ranks)), error)
        self.assertTrue(self.newest())
        step = int(self.newest().name[5:])
        self.assertEqual(max(self.metrics()), step)  # no step was done that is not saved

    def test_a_killed_launcher_takes_its_ranks_along(self):
        process = self.start()
        ranks = ranks_of(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 5
        while any(map(alive, ranks)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(any(map(alive, ranks)))

    def test_a_stopped_rank_is_named_when_time_runs_out(self):
        process = subprocess.Popen(self.command(*self.flags(), "--train.steps=100000",
                                                "--parallel.timeout=2s", ranks=2),
                                   stderr=subprocess.PIPE, text=True)
        wait_for_a_step(process, self.directory / "run")
        victim = next(pid for pid in ranks_of(process.pid) if variable(pid, "RANK") == "1")
        os.kill(victim, signal.SIGSTOP)
        error = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 3, error)
        self.assertRegex(error, r"rank 0 of 2 on axis \"dp\": .*timed out.*rank 1")


def wait_for_a_step(launcher, directory):
    """Until the job has logged a step; fails with what it says if it ends before."""
    log = directory / "metrics.jsonl"
    while not log.exists() or not log.read_text():
        if launcher.poll() is not None:
            raise AssertionError(f"ended before a step: {launcher.communicate()[1]}")
        time.sleep(0.05)


def ranks_of(launcher):
    """Processes below the launcher that are ranks."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            pid, parent = int(path.name), int(re.search(r"\) \S (\d+)", (path / "stat").read_text())[1])
        except (OSError, TypeError):
            continue
        if parent == launcher:
            found += [pid] if variable(pid, "RANK") else ranks_of(pid)
    return found


def variable(pid, name):
    try:
        for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(name.encode() + b"="):
                return entry.split(b"=", 1)[1].decode()
    except OSError:
        return None
    return None


def alive(pid):
    try:
        return ") Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(unittest.main())
