"""Runs commands for the measurements of this folder: `colossal train`, and the peers' scripts."""
import json
import os
import pathlib
import resource
import shlex
import shutil
import subprocess
import sysconfig
import time

BENCH = pathlib.Path(__file__).resolve().parent
PEERS = BENCH / "peers"
TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    pass


def cpu_name():
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {os.cpu_count()} cores" if names else f"{os.cpu_count()} cores"


def has_bf16_products():
    with open("/proc/cpuinfo") as lines:
        flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return "avx512_bf16" in flags or "amx_bf16" in flags


def make_corpus(folder):
    """A file of the standard library's sources; the bytes are the tokens."""
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        library = pathlib.Path(sysconfig.get_path("stdlib"))
        files = sorted(f for f in library.glob("**/*.py") if "site-packages" not in f.parts)
        corpus.write_bytes(b"".join(file.read_bytes() for file in files))
    return corpus


def _busy_seconds():
    """CPU time of the whole machine, without idle and waiting."""
    with open("/proc/stat") as lines:
        times = [int(field) for field in lines.readline().split()[1:9]]
    return (sum(times) - times[3] - times[4]) / TICKS


def _own_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def run(command, log, timeout=3 * 3600, environment=None):
    """Returns what `command` wrote to stdout, and the cores that others used meanwhile: figures
    taken while that is not near 0 are of a shared machine. Raises Failed with the end of the log."""
    command = [str(part) for part in command]
    busy, own, start = _busy_seconds(), _own_seconds(), time.monotonic()
    with open(log, "w") as errors:
        print("$", shlex.join(command), file=errors, flush=True)
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True,
                                  timeout=timeout, env={**os.environ, **(environment or {})})
        except subprocess.TimeoutExpired:
            raise Failed(f"more than {timeout} s; see {log}")
    if done.returncode != 0:
        said = [line.strip() for line in open(log, errors="replace") if any(map(str.isalpha, line))]
        raise Failed(f"exit code {done.returncode}: {said[-1][:200]}; see {log}")
    elapsed = time.monotonic() - start
    return done.stdout, max(0.0, (_busy_seconds() - busy - _own_seconds() + own) / elapsed)


def gpt2_flags(size):
    """The model and the batch; size: layers, hidden, heads, vocabulary, positions (1,024 where it has none),
    sequence, batch."""
    return [f"--model.n_layer={size['layers']}", f"--model.n_embd={size['hidden']}",
            f"--model.n_head={size['heads']}", f"--model.vocab_size={size['vocabulary']}",
            f"--model.n_positions={size.get('positions', 1024)}", f"--data.sequence_length={size['sequence']}",
            f"--train.global_batch={size['batch']}"]


def model_flags(size, folder):
    """... or config, the fields of a config.json."""
    if "config" not in size:
        return gpt2_flags(size)
    model = folder / "models" / size["config"]["model_type"]
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps(size["config"]))
    return ["--model.preset=", f"--model.path={model.resolve()}", "--data.tokenizer=bytes", f"--data.sequence_length={size['sequence']}",
            f"--train.global_batch={size['batch']}"]


def _make_job(corpus, folder, name):
    """A folder for the run, and its run.toml."""
    log_folder = folder / "runs" / name
    log_folder.mkdir(parents=True, exist_ok=True)
    toml = log_folder / "run.toml"
    toml.write_text(f'[model]\npreset = "gpt2-tiny"\n[data]\ntrain = ["{corpus.resolve()}"]\n')
    return log_folder, toml


def run_folder(folder, name):
    """What train() writes"""
    return folder / "runs" / name / "run"


def plan(binary, corpus, folder, name, flags, ranks):
    """What `colossal plan --json` says."""
    log_folder, toml = _make_job(corpus, folder, name)
    output, _ = run([binary, "plan", toml, f"--ranks={ranks}", *flags, "--json"], log_folder / "log.txt")
    return json.loads(output)


def train(binary, corpus, folder, name, flags, ranks, timeout=3 * 3600):
    """Runs `colossal train`; returns the lines of metrics.jsonl and the cores of others."""
    log_folder, toml = _make_job(corpus, folder, name)
    directory = run_folder(folder, name)
    shutil.rmtree(directory, ignore_errors=True)  # or a run would get a folder beside that of the one before
    _, others = run([binary, "train", toml, f"--ranks={ranks}", *flags, "--log.report=false",
                     f"--log.directory={directory}"], log_folder / "log.txt", timeout)
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()], others


def peer_python(environment=".venv"):
    python = PEERS / environment / "bin/python"
    if not python.exists():
        raise Failed(f"no {python}: run bench/peers/setup")
    return python


def peer(script, arguments, log, ranks=1, environment=".venv", threads=1):
    """Runs a script of peers/, under torchrun where there are several ranks; returns the JSON lines
    that it printed and the cores of others."""
    python = peer_python(environment)
    launcher = [python]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    # DeepSpeed compiles an operator at first use, with the ninja beside python
    output, others = run([*launcher, PEERS / script, *arguments], log, environment={
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "TORCH_EXTENSIONS_DIR": str(PEERS / environment / "extensions"),
        "OMP_NUM_THREADS": str(threads),
    })
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed(f"it printed no figures; see {log}")
    return lines, others
