// The Python that `capture` and SCRIPT.py:function need. The program itself links neither Python nor torch.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/process.h"
#include "model/model.h"

namespace ebbtide::cli {

// Begins every program for `python -c`: nothing is imported from the current folder, where a torch.py of somebody else
// may lie. As -P, which Python has from 3.11 on.
inline constexpr const char* kWithoutCurrentFolder = "import sys\nif sys.path[:1] == ['']: del sys.path[0]\n";

// Path of the interpreter: EBBTIDE_PYTHON; else `python` beside this program (a build's, a virtual environment's);
// else python3 on PATH.
Result<std::string> FindPython();

// The version of the torch beside this program, or of the environment that EBBTIDE_PYTHON belongs to, read from its
// files. Empty where none is found; no Python is started for it.
std::string InstalledTorch();

// Runs ebbtide.commands.capture with the arguments to its end, as `python -m` would but for the current folder: its
// exit code, 128 + n where signal n ended it. The package of this build is found first, if the program lies in a build
// folder. For the kernels of CUDA it runs on the phantom GPU, as PyTorch wants a device even where nothing is computed.
Result<int> RunCaptureCommand(const std::vector<std::string>& arguments, model::Device device, ChildOutput output);

// The same for another module of ebbtide.commands, which `module` names; on the CPU.
Result<int> RunPythonCommand(const std::string& module, const std::vector<std::string>& arguments, ChildOutput output);

}  // namespace ebbtide::cli
