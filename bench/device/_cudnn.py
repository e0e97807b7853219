"""Asks cuDNN itself which engines it has for a convolution, and the workspace of each, on a GPU that is described and not there.

Since 9.8 a descriptor of a GPU's properties takes the place of a handle ("Deviceless Ahead-of-time Compilation" in NVIDIA's documentation).
Numbers are those of cuDNN's public header cudnn_graph.h."""

import ctypes
import dataclasses
import json
import pathlib
import sysconfig

LIBRARIES = ("cuda_runtime/lib/libcudart.so.12", "cublas/lib/libcublasLt.so.12", "cublas/lib/libcublas.so.12", "cuda_nvrtc/lib/libnvrtc.so.12",
             "cudnn/lib/libcudnn_graph.so.9", "cudnn/lib/libcudnn.so.9")

# cudnnBackendDescriptorType_t
CONVOLUTION, ENGINE, ENGINE_CONFIG, HEURISTICS, PLAN = 1, 2, 3, 4, 5
FORWARD, FILTER_GRADIENT, DATA_GRADIENT, OPERATION_GRAPH, TENSOR, DEVICE = 10, 11, 12, 15, 17, 38
# cudnnBackendAttributeType_t
DATA_TYPE, BOOLEAN, INT64, FLOAT, DOUBLE, CONVOLUTION_MODE, MODE, NOTE, DESCRIPTOR, CHAR = 1, 2, 3, 4, 5, 7, 8, 11, 15, 24
# cudnnDataType_t
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
# cudnnBackendHeurMode_t
MODES = {"instant": 0, "b": 1, "fallback": 2, "a": 3}
# cudnnBackendNumericalNote_t
NOTES = {0: "tensor-core", 1: "rounds-inputs", 2: "reduced-sum", 3: "fft", 4: "nondeterministic", 5: "winograd", 6: "winograd-4x4", 7: "winograd-6x6",
         8: "winograd-13x13", 9: "strict-nan"}
# Operation: (its descriptor, attributes of the convolution, the filter, the image, the result, alpha, beta)
PASSES = {"forward": (FORWARD, 702, 703, 704, 705, 700, 701), "data": (DATA_GRADIENT, 708, 709, 710, 711, 706, 707),
          "filter": (FILTER_GRADIENT, 714, 715, 716, 717, 712, 713)}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A convolution as src/device/workspace_rules.h has it; spatial lists of one length."""

    direction: str  # forward, data, filter
    batch: int
    in_channels: int
    out_channels: int
    input: tuple
    filter: tuple
    output: tuple
    stride: tuple
    padding: tuple
    dilation: tuple = (1, 1)
    groups: int = 1
    dtype: str = "float32"
    channels_last: bool = False


@dataclasses.dataclass(frozen=True)
class Engine:
    index: int
    workspace: int
    notes: tuple


class Refused(Exception):
    """cuDNN's status, which says that it does not have what was asked for."""


def device_text(profile, cuda=12080):
    """A GPU of profiles/*.json in cuDNN's own form."""
    def number(name, default=0):
        return profile[name]["value"] if name in profile else default

    optin = number("shared_memory_per_block_optin", 49152)
    return json.dumps({
        "cudaDeviceId": 0, "deviceVer": 100 * number("compute_major") + 10 * number("compute_minor"), "driverVer": cuda,
        "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
        "multiProcessorCount": number("multiprocessors"), "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": optin, "reservedSharedMemoryPerBlock": 1024 if number("compute_major") >= 8 else 0,
        "maxRegistersPerSM": 65536, "maxCtasPerSM": number("blocks_per_multiprocessor", 32), "maxThreadsPerSM": number("threads_per_multiprocessor"),
        "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": number("memory_bytes"), "smClockRateKHz": number("clock_khz"),
        "memClockRateKHz": number("memory_clock_khz"), "l2CacheSize": number("l2_cache_bytes")})


class Cudnn:
    """cuDNN of the environment that runs this program."""

    def __init__(self):
        folder = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"
        for name in LIBRARIES:
            self._library = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        self._library.cudnnGetVersion.restype = ctypes.c_size_t
        self.version = self._library.cudnnGetVersion()

    def device(self, profile):
        text = device_text(profile).encode() + b"\0"
        return self._made(DEVICE, [(2702, CHAR, ctypes.create_string_buffer(text, len(text)), len(text))])

    def heuristics(self, problem, device, mode="instant", most=1000):
        """The first `most` engines that cuDNN's heuristics offer, best first, those that cannot be built left out."""
        kept = []
        graph = self._graph(problem, kept)
        choice = self._made(HEURISTICS, [(200, MODE, ctypes.c_int(MODES[mode]), 1), (201, DESCRIPTOR, graph, 1), (204, DESCRIPTOR, device, 1)], kept)
        count = ctypes.c_int64()
        self._check(self._library.cudnnBackendGetAttribute(choice, 202, DESCRIPTOR, ctypes.c_int64(0), ctypes.byref(count), None), "heuristics")
        configs = (ctypes.c_void_p * count.value)()
        for i in range(count.value):
            configs[i] = self._new(ENGINE_CONFIG, kept)
        found = ctypes.c_int64()
        self._check(self._library.cudnnBackendGetAttribute(choice, 202, DESCRIPTOR, count, ctypes.byref(found), configs), "heuristics")
        engines = []
        for i in range(found.value):
            if len(engines) >= most:
                break
            try:
                engines.append(self._planned(ctypes.c_void_p(configs[i]), device, kept))
            except Refused:
                continue
        self._drop(kept)
        return engines

    def engines(self, problem, device, most=128):
        """All engines that cuDNN can build for the problem with their own choice of knobs."""
        kept, engines = [], []
        graph = self._graph(problem, kept)
        count = self._number(graph, 802, INT64)
        for index in range(min(count, most)):
            try:
                engine = self._made(ENGINE, [(1300, DESCRIPTOR, graph, 1), (1301, INT64, ctypes.c_int64(index), 1), (1307, DESCRIPTOR, device, 1)], kept)
                config = self._made(ENGINE_CONFIG, [(300, DESCRIPTOR, engine, 1)], kept)
                engines.append(self._planned(config, device, kept))
            except Refused:
                continue
        self._drop(kept)
        return engines

    def _planned(self, config, device, kept):
        plan = self._made(PLAN, [(401, DESCRIPTOR, config, 1), (407, DESCRIPTOR, device, 1)], kept)
        workspace = self._number(plan, 402, INT64)
        holder = self._new(ENGINE, kept)
        array, count = (ctypes.c_void_p * 1)(holder.value), ctypes.c_int64()
        self._check(self._library.cudnnBackendGetAttribute(config, 300, DESCRIPTOR, ctypes.c_int64(1), ctypes.byref(count), array), "engine")
        engine = ctypes.c_void_p(array[0])
        notes, count = (ctypes.c_int * 16)(), ctypes.c_int64()
        self._check(self._library.cudnnBackendGetAttribute(engine, 1303, NOTE, ctypes.c_int64(16), ctypes.byref(count), notes), "notes")
        return Engine(self._number(engine, 1301, INT64), workspace, tuple(NOTES.get(notes[i], str(notes[i])) for i in range(count.value)))

    def _graph(self, problem, kept):
        p = problem
        descriptor, conv_attr, w_attr, x_attr, y_attr, alpha, beta = PASSES[p.direction]
        axes = len(p.input)
        x = self._tensor(1, (p.batch, p.in_channels, *p.input), p, kept)
        w = self._tensor(2, (p.out_channels, p.in_channels // p.groups, *p.filter), p, kept)
        y = self._tensor(3, (p.batch, p.out_channels, *p.output), p, kept)
        compute = TYPES["float64"] if p.dtype == "float64" else TYPES["float32"]  # of float32: a leave to round to tf32
        convolution = self._made(CONVOLUTION, [
            (100, DATA_TYPE, ctypes.c_int(compute), 1), (101, CONVOLUTION_MODE, ctypes.c_int(1), 1), (102, INT64, _longs(p.dilation), axes),
            (103, INT64, _longs(p.stride), axes), (104, INT64, _longs(p.padding), axes), (105, INT64, _longs(p.padding), axes),
            (106, INT64, ctypes.c_int64(axes), 1)], kept)
        scalar = (DOUBLE, ctypes.c_double) if p.dtype == "float64" else (FLOAT, ctypes.c_float)
        operation = self._made(descriptor, [
            (conv_attr, DESCRIPTOR, convolution, 1), (w_attr, DESCRIPTOR, w, 1), (x_attr, DESCRIPTOR, x, 1), (y_attr, DESCRIPTOR, y, 1),
            (alpha, scalar[0], scalar[1](1), 1), (beta, scalar[0], scalar[1](0), 1)], kept)
        return self._made(OPERATION_GRAPH, [(801, DESCRIPTOR, operation, 1)], kept)

    def _tensor(self, uid, shape, problem, kept):
        strides, step = [0] * len(shape), 1
        order = [1, *range(len(shape) - 1, 1, -1), 0] if problem.channels_last else range(len(shape) - 1, -1, -1)
        for axis in order:
            strides[axis], step = step, step * shape[axis]
        return self._made(TENSOR, [
            (901, DATA_TYPE, ctypes.c_int(TYPES[problem.dtype]), 1), (902, INT64, _longs(shape), len(shape)), (903, INT64, _longs(strides), len(shape)),
            (906, INT64, ctypes.c_int64(uid), 1), (900, INT64, ctypes.c_int64(16), 1)], kept)

    def _new(self, kind, kept):
        descriptor = ctypes.c_void_p()
        self._check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(descriptor)), "create")
        kept.append(descriptor)
        return descriptor

    def _made(self, kind, attributes, kept=None):
        descriptor = self._new(kind, [] if kept is None else kept)
        for name, type_, value, count in attributes:
            pointer = value if isinstance(value, ctypes.Array) else ctypes.byref(value)
            self._check(self._library.cudnnBackendSetAttribute(descriptor, name, type_, ctypes.c_int64(count), pointer), f"attribute {name}")
        self._check(self._library.cudnnBackendFinalize(descriptor), f"descriptor {kind}")
        return descriptor

    def _number(self, descriptor, name, type_):
        value, count = ctypes.c_int64(), ctypes.c_int64()
        status = self._library.cudnnBackendGetAttribute(descriptor, name, type_, ctypes.c_int64(1), ctypes.byref(count), ctypes.byref(value))
        self._check(status, f"attribute {name}")
        return value.value

    def _drop(self, kept):
        for descriptor in reversed(kept):
            self._library.cudnnBackendDestroyDescriptor(descriptor)

    @staticmethod
    def _check(status, what):
        if status != 0:
            raise Refused(f"{what}: cuDNN's status {status}")


def _longs(values):
    return (ctypes.c_int64 * len(values))(*values)
