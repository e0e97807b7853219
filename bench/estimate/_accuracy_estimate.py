"""Peaks by `ebbtide estimate`: of built-in models by name, of all others from a capture, which is kept for the next run."""

import collections
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

from _accuracy_rows import BadInput
from _doubled import PRIMES

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = pathlib.Path(os.environ.get("EBBTIDE_PROGRAM") or ROOT / "build" / "ebbtide")
SOURCES = [HERE / "_capture_worker.py", HERE / "_doubled.py", HERE / "_xmem_job.py",
           *(file for file in sorted((ROOT / "python" / "ebbtide" / "capture").rglob("*.py")) if file.name != "batches.py")]


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("EBBTIDE_CACHE") or pathlib.Path(home) / "ebbtide") / "graphs"


def _listed(what):
    run = subprocess.run([PROGRAM, what, "--json"], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)[what]


def _but_batch(job):
    return json.dumps(job | {"batch": None})


def phantom_environment(python):
    """Of a process of `python` that sees the phantom GPU."""
    probe = "import importlib.util as u, os; n = {}; " \
            "exec(open(os.path.join(os.path.dirname(u.find_spec('torch').origin), 'version.py')).read(), n); print(n['cuda'])"
    generation = subprocess.run([python, "-c", probe], check=True, capture_output=True, text=True).stdout.split(".")[0]
    libraries = {}
    for folder in ("common", f"cu{generation}"):
        libraries.update({file.name: str(file) for file in sorted((PROGRAM.parent / "phantom" / folder).glob("*.so*"))})
    preload = ":".join([str(PROGRAM.parent / "phantom" / "libebbtide_phantom.so"), *libraries.values()])
    return dict(os.environ, LD_PRELOAD=preload, PYTHONPATH=str(PROGRAM.parent / "python-path"), OMP_NUM_THREADS="1", EBBTIDE_PHANTOM_OUTPUT=os.devnull)


class NotBuilt(Exception):
    """Why a row's job cannot be built."""


class Worker:
    """A process that captures jobs with the packages of `python`, on the phantom GPU."""

    def __init__(self, python):
        self._said = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([python, HERE / "_capture_worker.py"], text=True, env=phantom_environment(python),
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)

    def capture(self, job):
        try:
            print(json.dumps(job), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self._process.wait()
            self._said.seek(0)
            raise NotBuilt(f"the capture ended with {code}: {(self._said.read().strip().splitlines() or ['it said nothing'])[-1]}")
        if "error" in json.loads(answer):
            raise NotBuilt(json.loads(answer)["error"])

    def close(self):
        self._process.stdin.close()
        self._process.wait()


class Estimates:
    """Predicts rows; may be asked by several threads."""

    def __init__(self, dataset, rows=(), python=None):
        """Of `rows` that differ in nothing but the batch, two captures tell the others. `python` names the interpreter whose
        packages jobs are captured with, instead of those of the measurements."""
        self._folder = cache_folder()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._code = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
        self._pythons = [python or sys.executable]
        if dataset == "xmem" and python is None:  # first with the software of the measurements
            self._pythons.insert(0, self._setup("bench/estimate/xmem.lock"))
        batches = {}
        for row in rows:
            batches.setdefault(_but_batch(row.job), set()).add(row.batch)
        # At 1 libraries take shortcuts.
        self._ends = {kind: (min(b), max(b)) for kind, b in batches.items() if len(b) > 2 and min(b) > 1}
        self._local = threading.local()
        self._file_locks = collections.defaultdict(threading.Lock)
        self._workers, self._lock = [], threading.Lock()
        self._gpus = {gpu["product"]: gpu["name"] for gpu in _listed("gpus")}
        self._built_in = {model["name"] for model in _listed("models")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self._workers:
            worker.close()

    def predict(self, row):
        """The object that `ebbtide estimate --json` prints."""
        if row.gpu not in self._gpus:
            raise NotBuilt(f"no profile is for the GPU {row.gpu}")
        if row.built_in:
            return self._run(row, row.built_in)
        ends = self._ends.get(_but_batch(row.job))
        if ends and row.one_capture:
            try:
                return self._run(row, [*self._telling(row), "--batch-size", str(row.batch)])
            except NotBuilt:  # then as all others
                pass
        if ends and row.batch not in ends:
            try:
                first, second = (str(self._graph(row, batch)) for batch in ends)
                return self._run(row, [first, "--other-batch", second, "--batch-size", str(row.batch)])
            except NotBuilt:  # a step that has other ops at other batches
                pass
        try:
            words = [str(self._graph(row, row.batch))]
        except NotBuilt:
            if row.model.lower() not in self._built_in:
                raise
            words = [row.model.lower(), "--batch-size", str(row.batch), "--optimizer", row.optimizer.lower()]
        return self._run(row, words)

    def _run(self, row, words):
        command = [PROGRAM, "estimate", *words, *row.flags, "--gpu", self._gpus[row.gpu], "--json"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode not in (0, 1):
            raise NotBuilt(run.stderr.strip()[-500:] or f"estimate ended with {run.returncode}")
        return json.loads(run.stdout)

    def key(self, job, python):
        """The file's name: another for every job, for other packages, and when the code that captures changes."""
        return hashlib.sha256(json.dumps([job, self._code, str(python)]).encode()).hexdigest()[:24] + ".json.gz"

    def _graph(self, row, batch):
        failures, job = [], row.job | {"batch": batch}
        for python in self._pythons:
            file = self._folder / self.key(job, python)
            try:
                with self._file_locks[file]:
                    if not file.exists():
                        self._worker(python).capture(job | {"file": str(file)})
            except NotBuilt as failure:
                failures.append(str(failure))
                continue
            if failures:
                print(f"accuracy: {row.path}: captured with the packages of {python}: {failures[0]}", file=sys.stderr, flush=True)
            return file
        raise NotBuilt("; ".join(dict.fromkeys(failures)))

    def _telling(self, row):
        """A capture at a batch that tells samples from other sizes, and what it tells of twice the batch."""
        python, failures = self._pythons[0], []
        for prime in PRIMES:
            job = row.job | {"batch": prime}
            file = self._folder / self.key(job, python)
            other = file.with_name(file.name.replace(".json.gz", "-doubled.json.gz"))
            refusal = file.with_name(file.name.replace(".json.gz", "-refused.txt"))
            with self._file_locks[file]:
                if refusal.exists():
                    failures.append(refusal.read_text())
                    continue
                try:
                    if not other.exists():
                        self._worker(python).capture(job | {"file": str(file), "doubled_file": str(other)})
                    return [str(file), "--other-batch", str(other)]
                except NotBuilt as failure:
                    failures.append(str(failure))
                    if "the capture ended" not in str(failure):  # else another time may go better
                        refusal.write_text(str(failure))
                    if "NotTelling" not in str(failure):
                        break
        raise NotBuilt("; ".join(failures))

    def _worker(self, python):
        mine = self._local.__dict__.setdefault("workers", {})
        if python not in mine or mine[python]._process.poll() is not None:
            mine[python] = Worker(python)
            with self._lock:
                self._workers.append(mine[python])
        return mine[python]

    @staticmethod
    def _setup(lock):
        run = subprocess.run([ROOT / "scripts" / "setup-python", lock], text=True, stdout=subprocess.PIPE)
        if run.returncode != 0:
            raise BadInput(f"{lock}: its environment could not be made")
        return run.stdout.strip() + "/bin/python"
