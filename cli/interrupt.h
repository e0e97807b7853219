// Ctrl-C: one line, exit code 130, within a second, whatever the program is doing.
#pragma once

#include <chrono>

namespace ebbtide::cli {

inline constexpr int kInterrupted = 130;  // 128 + SIGINT, as shells have it

// From now on SIGINT asks for an end instead of ending the process: jobs see it through `Interrupted` and return, so
// that destructors run. What has not ended 0.7 s later is ended: a child that runs is killed, temporary folders
// (temporary_folder.h) are removed, the line is printed, and the process exits with kInterrupted. Does nothing where
// SIGINT is ignored, as under nohup.
void HandleInterrupts();

// Whether SIGINT has come.
bool Interrupted();

// From a signal's handler: as if SIGINT had come to us. Safe there.
void NoteInterrupt();

// The line for the user, once, however often it is called. A line of progress that stands there is overwritten.
void SayInterrupted();

}  // namespace ebbtide::cli
