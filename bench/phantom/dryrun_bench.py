"""What a ResNet-50 step costs on the phantom GPU with times modelled, whatever the batch size, and the host memory of a job of 42 GB; beside
what is promised (60 ms, 4 GB). One run, so that the steps can be compared with each other.

    build/python bench/phantom/dryrun_bench.py"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMISED_MS, PROMISED_GB = 60, 4
# Waits for the device in each step, as a program that prints its loss does.
PROGRAM = """
import resource, sys, time, torch, torchvision
model = torchvision.models.resnet50(weights=None).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.zeros(1, 3, 224, 224, device="cuda").expand(int(sys.argv[1]), -1, -1, -1)
y = torch.zeros(int(sys.argv[1]), dtype=torch.int64, device="cuda")
times = []
for _ in range(12):
    start = time.perf_counter()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x.contiguous()), y).backward()
    optimizer.step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
print("step_ms", 1000 * sorted(times[2:])[len(times[2:]) // 2], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def main():
    print(f"{'batch':>6} {'median step':>12} {'peak reserved':>15} {'host memory':>12} {'predicted step':>15}")
    kept = True
    for batch in (8, 32, 128, 512):
        done = subprocess.run([ROOT / "build" / "ebbtide", "dryrun", "--json", "--gpu", "a100-80gb", "--", sys.executable,
                               "-W", "ignore", "-c", PROGRAM, str(batch)], capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        words = next(line.split() for line in done.stderr.splitlines() if line.startswith("step_ms "))
        step, host = float(words[1]), int(words[2]) / 1e9
        kept = kept and step <= PROMISED_MS and host <= PROMISED_GB
        print(f"{batch:6} {step:9.1f} ms {answer['peak_reserved_bytes'] / 1e9:12.1f} GB {host:9.2f} GB "
              f"{answer['step_time_ns'] / 1e6:12.1f} ms", flush=True)
    print(f"promised: {PROMISED_MS} ms and {PROMISED_GB} GB: {'kept' if kept else 'NOT kept'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
