// Where in the Python program an operator was called: the innermost frame outside of torch itself; for the operators of
// the backward pass, where the forward operator was that they belong to.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide_observer {

// Frames of files below these folders, one per line, are not the program's: torch's, the interpreter's own. What is
// installed below one of them (site-packages) is.
void SetInnerFolders(const std::string& folders);

// "file.py:12", or empty where it is not known. Remembers it for the node of the backward graph that the operator
// makes, which `thread` and `sequence` name; < 0: none.
std::string CurrentFrame(uint64_t thread, int64_t sequence);

// Whether the calling thread is inside of a function of that name, of those that the program's innermost frame called.
bool IsInside(const char* function);

// The calling thread runs a node that `thread` made with that number. Nodes may nest.
void EnterBackward(uint64_t thread, int64_t sequence);
void LeaveBackward();

}  // namespace ebbtide_observer
