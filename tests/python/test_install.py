"""What wheels rest on: which library goes with which torch, the allocator made from torch's headers, and what a build says that lacks packages."""

import pathlib
import subprocess

import pytest

from ebbtide.torch_package import LibraryError, TorchPackage, compile_for, forwarding_allocator

ROOT = pathlib.Path(__file__).resolve().parents[2]

HEADER = """
// A comment with virtual void no(int x) = 0;
class CUDAAllocator : public DeviceAllocator {
 public:
  virtual void* raw_alloc(size_t nbytes) = 0;
  virtual void init(int device_count) = 0;
  virtual bool isEnabled() const = 0;
  virtual SnapshotInfo snapshot(
      MempoolId_t mempool_id = {0, 0},
      bool include_traces = true) = 0;
  virtual void beginAllocateToPool(
      c10::DeviceIndex device,
      std::function<bool(cudaStream_t)> filter) = 0;
  virtual void annotate(const void* /*ptr*/, const std::string& /*what*/) { TORCH_WARN_ONCE(name(), " virtual int none(int x);"); }
  void recordStream(const DataPtr& ptr, c10::Stream stream) override { go(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    if (device) { return {0, 1}; }
    return {1, 2};
  }
  virtual std::string name() = 0;
  int not_virtual(int x);
};
"""
BASE = """
struct C10_API DeviceAllocator : public c10::Allocator {
  DeviceAllocator();
  ~DeviceAllocator() override;
  virtual void emptyCache(MempoolId_t mempool_id = {0, 0}) = 0;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) = 0;
  virtual std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex /*device*/) { return {}; }
};
"""


@pytest.fixture
def headers(tmp_path):
    for name, text in (("cuda/CUDACachingAllocator.h", HEADER), ("core/CachingDeviceAllocator.h", BASE)):
        (tmp_path / "c10" / name).parent.mkdir(parents=True)
        (tmp_path / "c10" / name).write_text(text)
    return tmp_path


def test_every_function_of_torchs_allocator_is_passed_on(headers):
    made = forwarding_allocator(headers)
    lines = [line.strip() for line in made.splitlines() if "override" in line]
    assert [line.split("(")[0].split()[-1] for line in lines] == [
        "init", "isEnabled", "snapshot", "beginAllocateToPool", "annotate", "getMemoryInfo", "name", "emptyCache", "getDeviceStats"]
    assert "SnapshotInfo snapshot(MempoolId_t a0, bool a1)" in made and "bool isEnabled() const override" in made
    assert "beginAllocateToPool(c10::DeviceIndex a0, std::function<bool(cudaStream_t)> a1)" in made
    assert "annotate(const void* a0, const std::string& a1)" in made


def test_headers_that_are_not_as_expected_are_refused(headers):
    header = headers / "c10" / "cuda" / "CUDACachingAllocator.h"
    header.write_text(HEADER.replace("snapshot", "picture"))
    with pytest.raises(LibraryError, match="expected torch's allocator"):
        forwarding_allocator(headers)
    header.write_text("class Other {};")
    with pytest.raises(LibraryError, match="expected CUDAAllocator"):
        forwarding_allocator(headers)


def package(folder, version, cuda, flags=""):
    folder.mkdir()
    (folder / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\n")
    config = folder / "share" / "cmake" / "Torch" / "TorchConfig.cmake"
    config.parent.mkdir(parents=True)
    config.write_text(flags)
    return TorchPackage(folder)


def test_releases_of_a_minor_version_share_a_library(tmp_path):
    def names(*torches):
        return [torch.build_name("kernels-cuda").rsplit("-", 1)[0] for torch in torches]

    first, second = package(tmp_path / "a", "2.8.0+cu128", "12.8"), package(tmp_path / "b", "2.8.1+cu126", "12.6")
    assert names(first, second) == ["kernels-cuda-torch2.8-abi1-cu12"] * 2
    other = package(tmp_path / "c", "2.9.0+cu130", "13.0"), package(tmp_path / "d", "2.6.0+cu124", "12.4", "-D_GLIBCXX_USE_CXX11_ABI=0")
    assert names(*other) == ["kernels-cuda-torch2.9-abi1-cu13", "kernels-cuda-torch2.6-abi0-cu12"]
    alpha = package(tmp_path / "e", "2.16.0a0+git12", None), package(tmp_path / "f", "2.16.0a0+git12", None)
    assert len(set(names(*alpha))) == 2  # no release: one of its own each
    assert alpha[0].build_name("kernels").startswith("kernels-torch2.16.0a0+git12-")


def test_without_a_compiler_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    torch = package(tmp_path / "a", "2.5.0", None)
    with pytest.raises(LibraryError, match="needs a C\\+\\+ compiler for torch 2.5.0.*install g\\+\\+ or set CXX"):
        compile_for(torch, {"kernels": tmp_path / "kernels.so"})


def said_by_cmake(folder, *words):
    done = subprocess.run(["cmake", "-S", ROOT, "-B", folder, *words], capture_output=True, text=True)
    assert done.returncode != 0 and done.stderr.count("CMake Error") == 1
    return " ".join(done.stderr.split())


def test_a_build_says_at_once_all_that_is_missing(tmp_path):
    off = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("fmt", "CLI11", "Protobuf")]
    said = said_by_cmake(tmp_path, *off)
    assert "missing libfmt-dev libcli11-dev libprotobuf-dev" in said
    assert "apt-get install --no-install-recommends libfmt-dev libcli11-dev libprotobuf-dev" in said


def test_a_compiler_that_is_missing_is_said_with_the_rest(tmp_path):
    said = said_by_cmake(tmp_path, "-DEBBTIDE_COMPILER=OFF")
    assert "Ebbtide cannot be built here: missing g++" in said
