// The program around the phantom, where it is a Python that is watched: where it stands, its signals, its end.
#pragma once

#include <string>

namespace ebbtide::phantom {

// "train.py:12" of the calling thread, or of the main thread where this one has no Python; empty where nobody knows.
std::string ProgramLine();

// Lets Python act on signals, in a wait that may take long: its own handlers run between two instructions only. Nothing
// in other threads than the main one.
void LetSignalsIn();

// Ends the process after what watches the program has written its record.
[[noreturn]] void EndProgram(int status);

// The rank that the watcher told; -1: none.
int ProgramRank();

}  // namespace ebbtide::phantom
