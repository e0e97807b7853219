"""For programs of tests that end right behind a backward pass on the phantom GPU."""

# Autograd's thread lets go of its last tensors after backward has returned; where it needs Python for that and Python is
# already ending, PyTorch aborts the process. Kernels take no time here, so that is no rare event. dryrun sees to it itself.
CALM_END = "import atexit, time; atexit.register(time.sleep, 0.3)\n"
